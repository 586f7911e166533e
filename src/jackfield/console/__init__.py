"""Serves the built console and its assets, or a minimal page if it is not built."""
