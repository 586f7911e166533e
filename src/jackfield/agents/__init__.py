"""Who acts: one run of a model with tools (`loop.py`), and what starts one.

May import: calls and everything below it. Never: a door. Every tool call goes through `calls/pipeline.py`.
"""
