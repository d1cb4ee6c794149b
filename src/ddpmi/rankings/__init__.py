"""Rank the pairs of a release, compare rankings and draw them. No module here can read rows or spend budget.

- ranking: the ranking of a release, with its tables, files and charts.
- pairs: the pairs of a ranking, their order, and the selection of rows.
- cells: the released sums as integer arrays.
- orders: what pairs are ordered by.
- patterns: the model behind the pooled order.
- noise_model: what the receipt says about noise and thresholds.
- intervals: intervals of mutual information.
- certainty: intervals of ranks, and the stable top.
- comparisons: how well a ranking agrees with a reference.
- display: rankings as text, HTML and files.
- charts: pictures of rankings and comparisons, and their files.
- drawings: other kinds of pictures of a ranking.
- batches: scoring batch by batch, for clusters.
- spark: rankings that stay in Spark.
"""
