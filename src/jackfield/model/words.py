"""Plurals, articles and suggestions in messages."""

import difflib


def counted(number: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(word: str) -> str:
    """`an object`, `a dict`, `a UUID`."""
    return f"{'an' if word[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {word}"


def nearest(word: str, known: list[str]) -> str:
    """` Did you mean 'x'?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""
