"""The ledger: the durable record of the budget spent.

- ledger: opens a ledger, charges it, and reports what is left
- entries: charges, entries and status as values and as rows
- heads: the newest event in one line, kept elsewhere and beside the ledger
- storage: the SQLite file, its tables, triggers and hash chain
"""
