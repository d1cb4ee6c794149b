"""Known mistakes of privacy code, each with the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One changed line, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    Mutant(
        "three thresholds spend delta three times",
        "calibration.py",
        " + (2 if self.every else 0)",
        "",
        "test_calibration.py -k every_threshold",
    ),
    Mutant(
        "pairs of dropped labels are shown",
        "aggregates.py",
        " AND label IN (SELECT label FROM drawn_labels)",
        "",
        "test_measurements.py -k drop_pairs_with_their_margins",
    ),
    Mutant(
        "one unit with one pair counts 256 times its noise",
        "contributions.py",
        "return int(2**self.g)",
        "return int(2**8)",
        "test_contributions.py -k declared_distinct",
    ),
    Mutant(
        "noise is halved",
        "noise.py",
        "noisy += np.clip(",
        "noisy //= 2\n    noisy += np.clip(",
        "test_curator.py -k width",
    ),
    Mutant(
        "noise is not drawn for labels",
        "measurements.py",
        "noise = None if self.reading.noises is None else",
        "noise = None if self.reading.noises is None or table == 'labels' else",
        "test_curator.py -k width",
    ),
    Mutant(
        "noise comes from a fixed key",
        "engines/draws.py",
        "noise.mechanism, source)",
        "noise.mechanism, source or __import__('ddpmi.randomness').randomness.Keystream(bytes(32)))",
        "test_curator.py -k different_noise",
    ),
    Mutant(
        "nothing is thresholded",
        "engines/draws.py",
        "drawn if noise.threshold is None else",
        "drawn if True else",
        "test_curator.py -k sets_groups_apart",
    ),
    Mutant(
        "threshold is one step low",
        "calibration.py",
        "return weight + high",
        "return weight + high - 2",
        "test_calibration.py -k smallest",
    ),
    Mutant(
        "threshold forgets the unit's own weight",
        "calibration.py",
        "return weight + high",
        "return high",
        "test_testing.py -k lone_units_pairs",
    ),
    Mutant(
        "threshold forgets that a unit has many pairs",
        "calibration.py",
        "math.log(pairs) + mechanism.log_tail(above)",
        "mechanism.log_tail(above)",
        "test_calibration.py -k smallest",
    ),
    Mutant(
        "features ignore that units have several labels",
        "calibration.py",
        "labels * k * x * x),  # proof: sensitivities.F",
        "k * x * x),  # proof: sensitivities.F",
        "test_contributions.py -k adversarial",
    ),
    Mutant(
        "labels use the sensitivity of pairs",
        "calibration.py",
        "total_squared * x * x),  # proof: sensitivities.L",
        "k * x * x),  # proof: sensitivities.L",
        "test_contributions.py -k adversarial",
    ),
    Mutant(
        "rho is taken at the whole of delta",
        "calibration.py",
        "rho_for(budget.epsilon, budget.delta / 2)",
        "rho_for(budget.epsilon, budget.delta)",
        "test_calibration.py -k rhos_convert",
    ),
    Mutant(
        "shares are not shared", "calibration.py", "(share * epsilon)", "epsilon", "test_calibration.py -k epsilons_sum"
    ),
    Mutant(
        "scales are rounded down",
        "calibration.py",
        "math.ceil(value * factor)",
        "math.floor(value * factor) - 1",
        "test_calibration.py -k 'epsilons_sum or spends'",
    ),
    Mutant(
        "values of one pair are not clipped",
        "contributions.py",
        "CAST(LEAST({total}, {most}) AS BIGINT)",
        "CAST({total} AS BIGINT)",
        "test_contributions.py -k adversarial",
    ),
    Mutant(
        "values of one row are not clipped",
        "contributions.py",
        "LEAST(GREATEST({value}, {_double(0.0, dialect)}), {_double(float(top), dialect)})",
        "GREATEST({value}, {_double(0.0, dialect)})",
        "test_contributions.py -k above_the_clip",
    ),
    Mutant(
        "NaN passes the clip",
        "contributions.py",
        "CASE WHEN {value} <> CAST('NaN' AS {dialect.double}) THEN",
        "CASE WHEN {value} IS NOT NULL THEN",
        "test_observations.py -k no_number",
    ),
    Mutant(
        "pairs are not capped",
        "contributions.py",
        "WHERE n <= {bounds.cap}",
        "WHERE n <= {bounds.cap + 1}",
        "test_contributions.py -k caps_keep",
    ),
    Mutant(
        "labels are not capped",
        "contributions.py",
        "WHERE n <= {bounds.labels}",
        "WHERE n <= {bounds.labels + 1}",
        "test_contributions.py -k caps_keep",
    ),
    Mutant(
        "weights are rounded up",
        "contributions.py",
        "_MARGIN = 1 - 2.0**-40",
        "_MARGIN = 1.01",
        "test_contributions.py -k 'equal_weight or counts_equal'",
    ),
    Mutant(
        "the second Gaussian bound is dropped",
        "contributions.py",
        'most = f"LEAST({root}, {_double(float(2 * k * levels * full), dialect)} / {s})"',
        "most = root",
        "test_contributions.py -k 'adversarial or counts_equal'",
    ),
    Mutant(
        "the hash ignores the salt",
        "statements.py",
        'parts = [self.salt, literal(f":{purpose}")]',
        'parts = [literal(f":{purpose}")]',
        "test_contributions.py -k new_salt",
    ),
    Mutant(
        "rows without a unit are kept",
        "observations.py",
        'for role in roles if role != "value"]',
        'for role in roles if role not in ("value", "unit")]',
        "test_curator.py -k without_a_unit",
    ),
    Mutant(
        "the charge comes after the data is read",
        "curator.py",
        "    entries = ledger.charge_many(charges)\n",
        "    with obs.open():\n        pass\n    entries = ledger.charge_many(charges)\n",
        "test_curator.py -k before_the_first_row",
    ),
    Mutant(
        "a charged id is drawn again",
        "curator.py",
        "if release_id is not None and (entry := ledger.find(chosen)) is not None:",
        "if False:",
        "test_curator.py -k charged_id",
    ),
    Mutant(
        "the engine's words are shown",
        "engines/duckdb.py",
        "({type(error).__name__})",
        "({error})",
        "test_curator.py -k engine_failure",
    ),
    Mutant(
        "spill files are left behind",
        "engines/duckdb.py",
        "        self._connection.close()\n        shutil.rmtree(self._spill, ignore_errors=True)",
        "        self._connection.close()",
        "test_curator.py -k outlives",
    ),
    Mutant(
        "units under several labels count once in the noise",
        "calibration.py",
        '"labels": of(1, labels, labels)',
        '"labels": of(1, 1, 1)',
        "test_measurements.py -k unit_counts_no_further",
    ),
    Mutant(
        "remainders merge unknown features",
        "aggregates.py",
        'if key == "label" else ""',
        'if key else ""',
        "test_measurements.py -k 'remainders or other_marginals'",
    ),
    Mutant(
        "public keys appear only where they occur",
        "aggregates.py",
        "LEFT JOIN joint AS j ON j.feature = f.feature AND j.label = l.label",
        "JOIN joint AS j ON j.feature = f.feature AND j.label = l.label",
        "test_measurements.py -k public_lists_fix",
    ),
    Mutant(
        "one public list lifts the threshold",
        "plan.py",
        "elif None not in known.values() or",
        "elif set(known.values()) != {None} or",
        "test_measurements.py -k keeps_the_threshold",
    ),
    Mutant(
        "grid mode forgets the threshold of features",
        "calibration.py",
        "if table == scheme.thresholded or",
        'if table == scheme.thresholded == "pairs" or',
        "test_measurements.py -k hides_rare",
    ),
    Mutant(
        "one pass serves plans with other lists",
        "plan.py",
        "return self.calibration.bounding, self.public_labels, self.public_features, self.labels_only, self.space, own",
        "return (self.calibration.bounding,)",
        "test_curator.py -k share_a_pass",
    ),
    Mutant(
        "weights of a set union do not shrink with the features",
        "selection.py",
        "SELECT p.feature, {_weight_of('u.t', dialect)} AS w",
        "SELECT p.feature, {weight(1)} AS w",
        "test_selection.py -k 'adversarial or same_weights'",
    ),
    Mutant(
        "features of a set union are not capped",
        "selection.py",
        'f"WHERE n <= {cap}"',
        'f"WHERE n <= {cap + 1}"',
        "test_selection.py -k 'adversarial or equal_the_reference'",
    ),
    Mutant(
        "the threshold of a set union looks at one feature alone",
        "calibration.py",
        "for features in range(most, 1, -1):",
        "for features in range(1, 1, -1):",
        "test_selection.py -k smallest",
    ),
    Mutant(
        "every round of a set union has all of the thresholds' delta",
        "calibration.py",
        "return delta / 2 / steps if steps else Fraction(0)",
        "return delta / 2 if steps else Fraction(0)",
        "test_selection.py -k smallest",
    ),
    Mutant(
        "a set union lifts the threshold of pairs with unknown labels",
        "plan.py",
        "(self.selection is not None and self.known_labels is not None)",
        "self.selection is not None",
        "test_selection.py -k 'unknown_labels or together_cost'",
    ),
    Mutant(
        "coins are tossed without the salt",
        "contributions.py",
        "SUBSTR({dialect.keyed_hash('coin', 'unit')}, 1, 16)",
        "SUBSTR({dialect.sha256.format(m=dialect.as_text('unit'))}, 1, 16)",
        "test_amplification.py -k 'fresh or equals_the_reference'",
    ),
    Mutant(
        "amplification is counted twice",
        "plan.py",
        "else inner_budget(self.budget, self.sample_rate)",
        "else inner_budget(inner_budget(self.budget, self.sample_rate), self.sample_rate)",
        "test_amplification.py -k 'lone_units or brute_force'",
    ),
    Mutant(
        "a sampled release is charged half of its delta",
        "amplification.py",
        "0 if pure else budget.delta)",
        "0 if pure else budget.delta / 2)",
        "test_amplification.py -k charged",
    ),
    Mutant(
        "releases share their coins",
        "plan.py",
        "own = object() if",
        "own = 0 if",
        "test_amplification.py -k no_two_releases",
    ),
    Mutant(
        "one unit that shows the seed labels everybody",
        "seeds.py",
        ") AS s ON n.unit = s.unit{rest}",
        ") AS s ON TRUE{rest}",
        "test_seeds.py -k nobody_else",
    ),
    Mutant(
        "a seed counts rows instead of different features",
        "seeds.py",
        "COUNT(DISTINCT {shown})",
        "COUNT({shown})",
        "test_seeds.py -k not_rows",
    ),
    Mutant(
        "equal rows of former labels are not merged",
        "observations.py",
        "return self.seed is not None or bool(",
        "return bool(",
        "test_seeds.py -k merged",
    ),
]
