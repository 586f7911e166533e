"""The pipeline of every call: find, validate, decide, execute, settle. Also pending calls, approvals, events.

Start reading at `pipeline.py`. Nothing else executes a tool, and nothing here knows how a request arrived.
"""
