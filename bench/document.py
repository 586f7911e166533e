"""Figures that a program writes into a page of docs, between two marks; the words around them are a person's."""

from pathlib import Path

MARKS = BEGIN, END = "<!-- figures begin -->", "<!-- figures end -->"


def write_into(document: Path, figures: str, *, marks: tuple[str, str] = MARKS) -> None:
    """Replace what stands between the marks."""
    begin, end = marks
    text = document.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    document.write_text(f"{before}{begin}\n{figures}\n{end}{after}", encoding="utf-8")
