"""Does private selection keep the accuracy of scikit-learn's, and how much faster is it?

    python bench/bench_selector.py [--documents 50000] [--words 20000] [--k 500 2000] [--folds 3] [--timing]

Generated texts: words follow Zipf's law, and each of 8 classes uses some words more often. A pipeline of selection and naive Bayes
is cross-validated with SelectKBest(mutual_info_classif), which is given whether a document has a word (its kindest setting), and
with PrivateMISelector at epsilon 2. Prints accuracy, seconds of one selection, their ratio in the same run, and peak memory.
SelectKBest takes many minutes, so it is run on the first fold and with --timing alone. Without it the same scores are computed
by the formula, which a test compares with scikit-learn's (tests/test_sklearn.py).
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_selection import SelectKBest, mutual_info_classif
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import MultinomialNB

from ddpmi.sklearn import PrivateMISelector, information

RESULT = Path(__file__).parent / "results" / "selector.json"
CLASSES, OWN, LENGTH, EPSILON, DELTA = 8, 120, 80, 2.0, 1e-6


def main() -> None:
    """Measure, and write the table and the JSON file after each fold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--k", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--timing", action="store_true")
    given = parser.parse_args()
    texts, labels = documents(given.documents, given.words)
    rows: list[dict[str, Any]] = []
    folds = StratifiedKFold(n_splits=given.folds, shuffle=True, random_state=0).split(texts, labels)
    for number, (train, test) in enumerate(folds):
        rows += fold_of(texts, labels, train, test, given.k, number, timing=given.timing and number == 0)
        RESULT.write_text(json.dumps({"settings": vars(given), "epsilon": EPSILON, "rows": rows}, indent=2) + "\n")


def documents(count: int, words: int, seed: int = 7) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Make texts as a matrix of counts, and their classes."""
    chance = np.random.default_rng(seed)
    usual = 1 / np.arange(1, words + 1)
    labels = chance.choice(CLASSES, count, p=np.arange(CLASSES, 0, -1) / sum(range(CLASSES + 1)))
    parts = []
    for label in range(CLASSES):
        weights = usual.copy()
        weights[chance.choice(np.arange(50, words // 4), OWN, replace=False)] *= 6
        size = int((labels == label).sum())
        drawn = chance.choice(words, size=(size, LENGTH), p=weights / weights.sum())
        at = np.repeat(np.flatnonzero(labels == label), LENGTH)
        parts.append(sparse.csr_matrix((np.ones(len(at)), (at, drawn.ravel())), shape=(count, words)))
    return sum(parts[1:], parts[0]).tocsr(), labels


def fold_of(
    texts: Any, labels: Any, train: Any, test: Any, sizes: list[int], number: int, *, timing: bool
) -> list[dict[str, Any]]:
    """Score both ways on one fold. Scores do not depend on k, so each way is timed once."""
    have = (texts[train] > 0).astype(np.int8)
    exact = SelectKBest(partial(mutual_info_classif, discrete_features=True), k="all")
    private = PrivateMISelector(k="all", epsilon=EPSILON, delta=DELTA)
    ways: dict[str, Any] = {"private": private} | ({"exact": exact} if timing else {})
    seconds, orders = {}, {}
    for name, selector in ways.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selector.fit(have, labels[train])
        seconds[name] = time.perf_counter() - start
        orders[name] = np.argsort(-selector.scores_, kind="stable")
    if not timing:
        own = np.eye(CLASSES)[labels[train]]
        scores = information(np.asarray(have.T.astype(float) @ own), own.sum(axis=0), 0.0, 0.0)
        orders["exact"] = np.argsort(-scores, kind="stable")
    rows = []
    for k in sizes:
        row: dict[str, Any] = {"fold": number, "k": k, "documents": len(train)}
        for name, order in orders.items():
            chosen = np.sort(order[:k])
            model = MultinomialNB().fit(texts[train][:, chosen], labels[train])
            row[f"accuracy_{name}"] = round(float(model.score(texts[test][:, chosen], labels[test])), 4)
        row |= {f"seconds_{name}": round(found, 2) for name, found in seconds.items()}
        if timing:
            row["times_faster"] = round(seconds["exact"] / seconds["private"], 1)
        row["common"] = round(len(set(orders["private"][:k]) & set(orders["exact"][:k])) / k, 3)
        row["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
