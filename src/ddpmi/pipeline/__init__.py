"""The way from rows to exact sums, as SQL text. Nothing here runs a query.

- steps: named SQL statements, and expressions and tables where a column or a path is expected.
- dialects: the SQL that engines spell differently, and the quoting of names.
- bounds: how much one unit may change, and the checks of names and lists of keys.
- contributions: SQL that bounds the contributions of each unit.
- aggregates: SQL that sums bounded contributions over pairs, features, labels and all.
- selection: SQL of a private set union, which finds the features that exist.
- looks: SQL of the private look, which counts units by their labels and pairs.
- seeds: SQL that labels units by whether they have the features of a seed.
"""
