"""The words of the house: pure, frozen types that every room may use.

What a tool is, what a call is and which moves it may make, who asks and what they may do. This room
imports nothing of ours, does no I/O and keeps no state.
"""
