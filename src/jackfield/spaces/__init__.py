"""Spaces: what happens in a space, told live to everybody who follows it.

A feed reads each durable event of the store once and hands the same bytes to all; what agents' models are still writing
goes between, in order. May import the store and the model. Never writes a message, and never decides who may see one:
that is the store's, the agents' and the handlers'.
"""
