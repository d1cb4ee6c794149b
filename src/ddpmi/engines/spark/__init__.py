"""The distributed engine, Spark: DataFrames, tables of its catalog, and files.

- engine: runs steps in a session; tasks add the noise
- source: the data that Spark reads
- sessions: sessions found or started; their settings, errors and progress
"""
