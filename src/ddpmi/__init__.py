"""Rank what sets each group apart, computed only from differentially private sums."""
