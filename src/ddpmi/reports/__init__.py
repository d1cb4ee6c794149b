"""Pages made from a ranking, of released numbers only.

- page: one HTML file.
- content: the rows that a page holds, and its numbers.
- sentences: what a page says in words.
- front: the template, styles and scripts of pages, as files.
"""
