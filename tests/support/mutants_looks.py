"""Known mistakes of a look: in its histograms, its noise and its charges."""

from __future__ import annotations

from tests.support.mutant import Mutant

MUTANTS = [
    Mutant(
        "a look counts pairs in place of units",
        "pipeline/looks.py",
        "SELECT bucket, COUNT(*) AS units FROM",
        "SELECT bucket, 2 * COUNT(*) AS units FROM",
        "pipeline/test_looks.py -k heavy",
    ),
    Mutant(
        "a unit is in its own bucket and in the next one",
        "pipeline/looks.py",
        "ON b.bucket = h.bucket",
        "ON b.bucket = h.bucket OR b.bucket = 1 + h.bucket",
        "pipeline/test_looks.py -k heavy",
    ),
    Mutant(
        "the noise of a look is half as wide as its charge",
        "planning/auto.py",
        "scale = 1 / self.look_epsilon",
        "scale = 1 / self.look_epsilon / 2",
        "curator/test_looking.py -k lone",
    ),
    Mutant(
        "the release gets what its look has spent",
        "planning/auto.py",
        "self.budget.epsilon - self.look_budget.epsilon",
        "self.budget.epsilon",
        "planning/test_auto.py -k keep_to_the_budget",
    ),
    Mutant(
        "Gaussian noise forgets the rho of its look",
        "planning/auto.py",
        "rho_for(self.budget.epsilon, delta / 2) - spent",
        "rho_for(self.budget.epsilon, delta / 2)",
        "planning/test_auto.py -k rest_of_the_rho",
    ),
    Mutant(
        "a look is charged after it was read",
        "curator/door.py",
        "        ledger.charge_many([asked.charge()])\n        try:",
        "        try:",
        "curator/test_looking.py -k charged_in_order",
    ),
]
