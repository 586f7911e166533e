"""Numbers and articles in sentences. Above: whoever tells something to people or models. Below: nothing."""


def counted(number: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(word: str) -> str:
    """`an object`, `a dict`, `a UUID`."""
    return f"{'an' if word[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {word}"
