"""The engine that runs steps on a SQLite file, with the sqlite3 module of Python.

- engine: runs steps in temporary tables of one connection that cannot write to the file
- source: the data that it reads
- cells: a cell as text, and the functions that SQLite lacks
"""
