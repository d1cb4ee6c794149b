"""The engine that runs steps inside a PostgreSQL server: tables, views and queries.

- engine: runs steps in temporary tables of one session, in one state of the data
- source: the data that it reads, and which constraints of the database hold for them
- sessions: connections, settings and errors
"""
