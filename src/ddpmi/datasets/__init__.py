"""Data to try ddpmi on.

- generated: rows in the shape of the paper's large experiment.
- nycflights: the public flights of the demo and the tutorial.
"""

from ddpmi.datasets.generated import PAPER_FEATURES, PAPER_LABELS, PAPER_UNITS, paper_shape
from ddpmi.datasets.nycflights import flights, flights_by_name

__all__ = ["PAPER_FEATURES", "PAPER_LABELS", "PAPER_UNITS", "flights", "flights_by_name", "paper_shape"]
