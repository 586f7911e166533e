"""Pure, frozen types that several packages need: tools, calls and their transitions, principals, items.

Imports nothing of ours, does no I/O and keeps no state.
"""
