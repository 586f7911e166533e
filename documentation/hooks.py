"""What MkDocs does with docs/: adds pages of other folders and those made from the code, and mends links between them.

Above: `mkdocs.yml`, which names this file. `moved` is pure, and tests look at it without the site.
"""

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from documentation.pages import PAGES  # noqa: E402 - after the line above

ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "examples/README.md": "examples/index.md",
    **{
        f"examples/{path.parent.name}/README.md": f"examples/{path.parent.name}.md"
        for path in sorted((ROOT / "examples").glob("*/README.md"))
    },
}
"""Files of the repository that are pages of the site, and where."""
EXAMPLES, REST = "EXAMPLES", "Explanation"
SCRIPTS = {
    "assets/diagrams.js": ROOT / "documentation/diagrams.js",
    "assets/mermaid.min.js": ROOT / "build/assets/mermaid.min.js",
}
"""The first loads the second, on pages with a diagram, where `make/docs` could fetch it."""
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<to>[^)\s]+)\)")
_FENCE = re.compile(r"^ *(`{3,}|~{3,})")


def on_config(config: Any) -> Any:
    """List the examples, and the pages that nobody has listed."""
    nav = config["nav"]
    listed = set(_paths(nav))
    rest = [path for path in _own_pages() if path not in listed]
    for section in nav:
        for name, entries in section.items():
            if name == REST:
                entries.extend(rest)
            _put_examples(entries)
    config["extra_javascript"].append(next(iter(SCRIPTS)))
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only where the site is built

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    for path, place in ELSEWHERE.items():
        files.append(File.generated(config, place, content=moved(path, (ROOT / path).read_text(encoding="utf-8"))))
    for path, source in SCRIPTS.items():
        if source.is_file():
            files.append(File.generated(config, path, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    path = page.file.src_uri
    if path in PAGES or path in ELSEWHERE.values():
        return indented(markdown)
    return indented(moved(f"docs/{path}", markdown))


def moved(path: str, text: str) -> str:
    """The text of a file of the repository with its links as they are in the site."""
    folder, place = posixpath.dirname(path), place_of(path)

    def at(link: re.Match[str]) -> str:
        to, _, anchor = link["to"].partition("#")
        if not to or ":" in to:
            return link[0]
        target = posixpath.normpath(posixpath.join(folder, to))
        if (ROOT / target).is_dir() and f"{target}/README.md" in ELSEWHERE:
            target = f"{target}/README.md"
        if target not in ELSEWHERE and not target.startswith("docs/"):
            return f"{link['text']} (`{target}`)" if "`" not in link["text"] else link["text"]
        relative = posixpath.relpath(place_of(target), posixpath.dirname(place) or ".")
        text = link["text"]
        if text == posixpath.basename(target) and text.endswith(".md"):
            text = text.removesuffix(".md").replace("-", " ").replace("_", " ").lower()
        return f"{link['image']}[{text}]({relative}{f'#{anchor}' if anchor else ''})"

    return "\n".join(line if is_code else _LINK.sub(at, line) for line, is_code in _lines(text))


def place_of(path: str) -> str:
    """Where a file of the repository is in the site."""
    return ELSEWHERE.get(path, path.removeprefix("docs/"))


def indented(text: str) -> str:
    """What belongs to an item of a list gets four spaces: Python's Markdown wants them, GitHub takes two or three."""
    mended = []
    inside = 0
    for line, is_code in _lines(text):
        spaces = len(line) - len(line.lstrip(" "))
        if not is_code or _FENCE.match(line):
            inside = 4 - spaces if spaces in (2, 3) and line.strip() else 0 if line.strip() else inside
        mended.append(" " * inside + line if line.strip() else line)
    return "\n".join(mended)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is in a block of code or one of its fences."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
            yield line, True
        elif found and line.strip() == fence:
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def _paths(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for inner in nav.values():
            yield from _paths(inner)
    else:
        for inner in nav:
            yield from _paths(inner)


def _own_pages() -> list[str]:
    folder = ROOT / "docs"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


def _put_examples(entries: Any) -> None:
    for entry in entries:
        if isinstance(entry, dict) and entry.get("Examples") == EXAMPLES:
            entry["Examples"] = [place for path, place in ELSEWHERE.items() if path.startswith("examples/")]
