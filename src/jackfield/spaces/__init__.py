"""Spaces: messages, members and visible calls in one numbered stream, live.

A feed reads each durable event once and sends the same bytes to all subscribers, with the deltas of agents in between.
"""
