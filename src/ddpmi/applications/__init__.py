"""Uses of releases and rankings that go beyond one release.

- expansion: from a few features to those that go with them, in several rounds.
- cascades: several releases on one ledger that start from each other's results.
- runs: release and ranking in one call.
- simulation: what a plan would release from data of a declared shape.
"""
