"""The documentation site: reference pages made from the code, and the hook that puts them into MkDocs.

`make docs` builds the site from docs/ and from what `pages.py` makes. Tests hold the pages and the code together.
"""
