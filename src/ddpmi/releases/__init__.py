"""Releases: what leaves the border, and all that rankings and reports may read.

- release: the tables and the receipt, in memory and as a folder
- receipts: what a receipt says, as JSON and as text
- tables: the four released tables, in memory and on disk
"""
