"""Pages made from a ranking, of released numbers only.

- page: one HTML file.
"""
