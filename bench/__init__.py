"""`make bench`: what the gateway costs, measured beside a reference in the same run.

`rows/` has one module per row of the table; `__main__.py` runs them and prints it. The sides of a row take turns, round
by round, so that whatever else the machine does hits all of them. Nothing here is imported by the gateway.
"""
