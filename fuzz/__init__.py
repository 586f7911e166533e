"""Fuzzing of everything that reads foreign bytes: `make fuzz`. See docs/fuzzing.md."""
