"""Scores of one feature and one label, from four sums. It knows nothing of privacy and reads nothing.

- mi: mutual information of a 2 x 2 table, and the nearest table that can exist for noisy sums.
- scores: other measures of association, such as PMI, chi-square and log odds.
"""
