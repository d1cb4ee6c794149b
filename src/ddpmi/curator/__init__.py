"""The curator: the only code that crosses the border from rows to a release.

- columns: the column or expression of each role
- observations: data that has been named, but not read
- looking: the private look, from which bounds follow
- drawing: the tables of a release, drawn once
- readiness: what is checked before the charge
- door: release, release_many and exact
"""
