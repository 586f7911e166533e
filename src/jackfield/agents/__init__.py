"""Durable agents: the scheduler, the cycle runner, built-in tools, inbox, memories, goals and plans.

Every tool call of an agent goes through `calls/pipeline.py`.
"""
