"""Could anybody order a release better who has seen the truth? Learners that are taught what is in each label's top 20.

    python bench/check_learners.py --data FOLDER arxiv --draws 5

For each pair of a release behind its threshold a learner gets all that the release says about it: the values of three
orders and the places they give within the label, noisy sums, lifts and deviations, also of the nearest labels and of the
whole row. It is taught with the truth of nine tenths of the features which pairs are among the true top 20 of their label,
and orders the rest by how likely it finds that. No order can be taught so in practice. What such learners cannot do better
than the pooled order, whose values they are given, is hardly in the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from accuracy_sums import Sums, drawn, ranked
from bench_accuracy import check_sets
from check_estimates import Subject, by_patterns, noise_of, parts, plan_of
from ddpmi import orders
from ddpmi.comparisons import LABEL_TOP
from ddpmi.scores import places_in_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    import ddpmi
    from ddpmi.rankings import Ranking

OUT = Path(__file__).parent / "results" / "learners.json"
EPSILONS = (1, 4)
NEAR = (-3, -2, -1, 1, 2, 3)
FOLDS = 10
LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, C=0.3)),
    "boosted trees": lambda: HistGradientBoostingClassifier(
        max_iter=150, learning_rate=0.06, max_leaf_nodes=8, l2_regularization=5, min_samples_leaf=30, random_state=0
    ),
    "random trees": lambda: ExtraTreesClassifier(300, min_samples_leaf=4, random_state=0),
}


@dataclass(frozen=True)
class Shown:
    """The pairs of one release: their labels and directions, and what each order makes of them."""

    sums: Sums
    presence: np.ndarray
    values: dict[str, np.ndarray]
    facts: np.ndarray

    @classmethod
    def of(cls, sums: Sums, plan: ddpmi.Plan) -> Shown:
        """Gather all that a release says about its pairs."""
        ranking = ranked(sums, plan, order="estimate")
        noise, feature, label = noise_of(ranking), sums.feature, sums.label
        expected = np.maximum(sums.feature_sums[feature] * (sums.label_sums[label] / sums.total), 1)
        lift = np.clip(sums.joint / expected - 1, -1, 9)
        deviations = (sums.joint - expected) / plan.calibration.tables["pairs"].mechanism.sd
        values = {
            "estimate": ranking.source.mi,  # type: ignore[union-attr]
            "shrunk": orders.shrunk(parts(sums), noise, orders.BEHIND_THRESHOLD),
            "pooled": by_patterns(sums, noise).value,
        }
        sizes = (expected, np.maximum(sums.feature_sums[feature], 1), np.maximum(sums.label_sums[label], 1))
        facts = [np.log(part + 1e-12) for part in (*values.values(), *sizes)] + [lift, deviations, label]
        facts += around(sums, lift, deviations)
        for value in values.values():
            for some in (np.arange(len(lift)), np.flatnonzero(lift > 0)):
                place = np.full(len(lift), 999.0)
                place[some] = places(value[some], label[some])
                facts.append(np.log(place))
        return cls(sums=sums, presence=lift > 0, values=values, facts=np.stack(facts, axis=1))


def around(sums: Sums, lift: np.ndarray, deviations: np.ndarray) -> list[np.ndarray]:
    """What the nearest labels of the same feature say, and its whole row."""
    edge = max(NEAR)
    shape = (len(sums.features), len(sums.labels) + 2 * edge)
    tables = []
    for part in (lift, deviations, np.ones(len(lift))):
        table = np.zeros(shape)
        table[sums.feature, sums.label + edge] = part
        tables.append(table)
    row = tables[1][sums.feature]
    whole = [tables[2][sums.feature].sum(1), np.abs(row).sum(1), row.max(1), row.min(1)]
    return [table[sums.feature, sums.label + edge + step] for step in NEAR for table in tables] + whole


def places(values: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The place of each pair in its label, best first."""
    order = np.lexsort((-values, label))
    found = np.empty(len(values))
    found[order] = places_in_groups(label[order])
    return found


def best_of(truth: Ranking, *, presence: bool) -> tuple[np.ndarray, np.ndarray]:
    """The true top 20 of each label as numbers of pairs, and how many there are."""
    coded = truth.coded()
    rows = np.flatnonzero(coded.presence) if presence else np.arange(len(coded))
    rows = rows[places(-coded.place[rows].astype(np.float64), coded.label_code[rows]) <= LABEL_TOP]
    codes = coded.feature_code[rows].astype(np.int64) * len(coded.labels) + coded.label_code[rows]
    return codes, np.bincount(coded.label_code[rows], minlength=len(coded.labels))


def taught(learner: Callable[[], Any], shown: Shown, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Order pairs by what was learned from the truth about other features."""
    fold = np.random.default_rng(1).integers(0, FOLDS, len(shown.sums.features))[shown.sums.feature[rows]]
    chance = np.zeros(len(rows))
    for number in range(FOLDS):
        here = fold == number
        if here.any():
            learned = learner().fit(shown.facts[rows][~here], right[~here])
            chance[here] = learned.predict_proba(shown.facts[rows][here])[:, 1]
    return chance


def overlaps(shown: Shown, truth: Ranking, *, presence: bool) -> dict[str, float]:
    """The mean overlap of each label's top 20, by order or learner; and of all true ones that are shown at all."""
    best, sizes = best_of(truth, presence=presence)
    rows = np.flatnonzero(shown.presence) if presence else np.arange(len(shown.presence))
    label = shown.sums.label[rows]
    right = np.isin(shown.sums.feature[rows].astype(np.int64) * len(sizes) + label, best)

    def overlap(values: np.ndarray) -> float:
        met = np.bincount(label[right & (places(values, label) <= LABEL_TOP)], minlength=len(sizes))
        return float(np.mean(np.divide(met, sizes, out=np.ones(len(sizes)), where=sizes > 0)))

    found = {name: overlap(values[rows]) for name, values in shown.values.items()}
    found |= {name: overlap(taught(learner, shown, rows, right)) for name, learner in LEARNERS.items()}
    return found | {"all that are shown": overlap(right.astype(np.float64))}


def measure(name: str, data: Path, draws: int) -> list[dict[str, Any]]:
    """Everything on one set."""
    subject, rows = Subject(name, data), []
    for epsilon in EPSILONS:
        plan = plan_of(subject.case, epsilon, None, {})
        sums = subject.sums(plan)
        found: dict[str, list[list[float]]] = {}
        for draw in range(draws):
            shown = Shown.of(drawn(sums, plan, f"{name} threshold {epsilon} {draw}"), plan)
            both = [overlaps(shown, subject.truth, presence=presence) for presence in (False, True)]
            for kind in both[0]:
                found.setdefault(kind, []).append([one[kind] for one in both])
        for kind, values in found.items():
            mean = np.mean(values, axis=0).round(4).tolist()
            rows.append(
                {"set": name, "epsilon": epsilon, "order": kind, "label top 20": mean[0], "presence only": mean[1]}
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    check_sets(__doc__, OUT, measure, draws=5)


if __name__ == "__main__":
    main()
