"""The site as a whole: every link and anchor leads somewhere, every page can be found, nothing comes from elsewhere."""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from documentation.hooks import ELSEWHERE, SCRIPTS, indented, moved
from documentation.markdown import anchor
from documentation.pages import PAGES
from tests.requirement import requirement

ROOT = Path(__file__).parents[2]
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


@cache
def site() -> dict[str, str]:
    """Every page by its path, as it is before it becomes HTML."""
    own = {path.relative_to(ROOT / "docs").as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    pages = {place: moved(f"docs/{place}", path.read_text(encoding="utf-8")) for place, path in own.items()}
    pages |= {place: moved(path, (ROOT / path).read_text(encoding="utf-8")) for path, place in ELSEWHERE.items()}
    return pages | {place: make() for place, make in PAGES.items()}


def without_code(text: str) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors_of(place: str) -> frozenset[str]:
    headings = re.findall(r"^#+ (.+)$", without_code(site()[place]), re.MULTILINE)
    return frozenset(anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings)


def links_of(place: str) -> Iterator[tuple[str, str]]:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(site()[place])):
        if "://" not in link and not link.startswith("mailto:"):
            to, _, at = link.partition("#")
            yield (posixpath.normpath(posixpath.join(posixpath.dirname(place), to)) if to else place), at


@requirement("DOC-links")
def test_every_link_and_anchor_leads_somewhere() -> None:
    dead = []
    for place in site():
        for to, at in links_of(place):
            is_file = to in site() or (ROOT / "docs" / to).is_file()
            if not is_file or (at and to in site() and at not in anchors_of(to)):
                dead.append(f"{place}: {to}#{at}")
    assert dead == []
    assert len(site()) > 60


@requirement("DOC-links")
def test_every_page_that_the_navigation_lists_is_there() -> None:
    listed = re.findall(r"(?:: |- )([\w/.-]+\.md)$", NAV, re.MULTILINE)
    assert [place for place in listed if place not in site()] == []
    assert len(listed) == len(set(listed))
    assert set(PAGES) <= set(listed)


def test_links_out_of_docs_lead_to_the_pages_that_stand_for_the_files() -> None:
    text = "See [one](../examples/provider), [it](../CONTRIBUTING.md#map) and [the code](../src/jackfield/errors.py)."
    assert moved("docs/hooks.md", text) == (
        "See [one](examples/provider.md), [it](project/contributing.md#map) and the code (`src/jackfield/errors.py`)."
    )
    assert moved("README.md", "![x](docs/images/a.png) [b](docs/b.md)") == "![x](images/a.png) [b](b.md)"
    assert (
        moved("docs/a.md", "[life-of-a-call.md](life-of-a-call.md#states)")
        == "[life of a call](life-of-a-call.md#states)"
    )
    assert moved("docs/a.md", "```sh\n[a](../b)\n```") == "```sh\n[a](../b)\n```"


def test_what_belongs_to_an_item_of_a_list_is_indented_by_four() -> None:
    assert indented("1. One\n\n   | a |\n   ```sh\n   x\n     y\n   ```\nEnd") == (
        "1. One\n\n    | a |\n    ```sh\n    x\n      y\n    ```\nEnd"
    )


@requirement("DOC-site")
def test_the_site_loads_nothing_from_elsewhere() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in config
    assert re.findall(r"https?://", config.replace("http://127.0.0.1", "")) == []
    assert "://" not in SCRIPTS["assets/diagrams.js"].read_text(encoding="utf-8").replace("// ", "")
