"""Data to try ddpmi on.

- generated: rows in the shape of the paper's large experiment.
- nycflights: the public flights of the demo and the tutorial.
- words: texts become rows of words, the same in one process and on a cluster.
- texts: import of tables of texts, and of the AMiner citation network.
"""

from ddpmi.datasets.generated import PAPER_FEATURES, PAPER_LABELS, PAPER_UNITS, paper_shape
from ddpmi.datasets.nycflights import flights, flights_by_name
from ddpmi.datasets.texts import import_aminer, import_text
from ddpmi.datasets.words import STOP_WORDS, Words, words_of

__all__ = [
    "PAPER_FEATURES",
    "PAPER_LABELS",
    "PAPER_UNITS",
    "STOP_WORDS",
    "Words",
    "flights",
    "flights_by_name",
    "import_aminer",
    "import_text",
    "paper_shape",
    "words_of",
]
