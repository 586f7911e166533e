from pathlib import Path

import pytest

import bench.__main__
import bench.comparison.__main__
import conformance.__main__
from bench.document import BEGIN, END, write_into


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text(f"# Words\n{BEGIN}\nold\n{END}\nmore words\n", encoding="utf-8")

    write_into(page, "new")
    write_into(page, "newer")

    assert page.read_text(encoding="utf-8") == f"# Words\n{BEGIN}\nnewer\n{END}\nmore words\n"


@pytest.mark.parametrize(
    "document", [bench.__main__.DOCUMENT, bench.comparison.__main__.DOCUMENT, conformance.__main__.DOCUMENT]
)
def test_the_page_in_docs_has_the_marks(document: Path) -> None:
    text = document.read_text(encoding="utf-8")

    assert text.count(BEGIN) == 1
    assert text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)
