"""Hooks: the operator's own code before and after calls."""
