"""Figures that a program writes into a page of docs, between two marks; the words around them are a person's."""

from pathlib import Path

BEGIN, END = "<!-- figures begin -->", "<!-- figures end -->"


def write_into(document: Path, figures: str) -> None:
    """Replace what stands between the marks."""
    text = document.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    document.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}", encoding="utf-8")
