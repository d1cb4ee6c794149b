"""The embedded engine, DuckDB: files and frames on one machine.

- engine: runs steps in a private database
- source: the data that DuckDB reads, and which expressions fit its columns
- expressions: which SQL expressions are functions of one row that no cell can break
- files: Parquet, CSV and JSON lines files as one relation
- databases: tables of DuckDB files, opened read-only
- frames: frames and Arrow tables in memory as Arrow arrays
- encodings: bytes of text files as UTF-8
"""
