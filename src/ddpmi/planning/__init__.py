"""A release decided before any row is read: its noise, thresholds, cost and SQL. It reads no data and costs nothing.

- plan: the parameters of a release, the checks of their combinations, and how the budget is divided.
- calibration: the noise and the threshold of each table.
- auto: plans whose bounds follow from a private look.
- suggest: a plan chosen from public hints about the data.
- explain: a plan as text and as numbers.
"""
