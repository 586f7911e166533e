"""Spaces: where people and agents see messages and visible calls, live. Above: calls, agents, web. Below: the store."""
