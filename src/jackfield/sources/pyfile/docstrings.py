"""Splits a docstring into the description and the parameters, in Google, NumPy or Sphinx style."""

import inspect
import re

from msgspec import Struct

_GOOGLE = re.compile(r"(Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Attributes):\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\)\s*)?:(?:\s+(?P<text>.*))?")
_NUMPY = re.compile(r"(Parameters|Other Parameters|Attributes)\s*")
_NUMPY_ENTRY = re.compile(r"(?P<name>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_UNDERLINE = re.compile(r"-{3,}\s*")
_SPHINX = re.compile(
    r":(?P<what>param|parameter|arg|argument|key|keyword|type)\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)"
)


class Docs(Struct, frozen=True, kw_only=True):
    """A docstring, with its parameter sections taken out of the description."""

    description: str = ""
    parameters: dict[str, str] = {}


def split_docstring(docstring: str | None) -> Docs:
    """`docstring`, dedented and split into description and parameters."""
    if not docstring:
        return Docs()
    lines = inspect.cleandoc(docstring).splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        found, end = _section(lines, at)
        if end == at:
            kept.append(lines[at])
            end = at + 1
        parameters |= found
        at = end
    return Docs(description=re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), parameters=parameters)


def _section(lines: list[str], at: int) -> tuple[dict[str, str], int]:
    """The parameters of the section that starts at line `at`, and the line after it; `at` itself if none does."""
    line = lines[at]
    if found := _SPHINX.fullmatch(line):
        end = _end_of_indented(lines, at + 1)
        text = _joined([found["text"], *lines[at + 1 : end]])
        return ({found["name"]: text} if found["what"] != "type" else {}), end
    if _GOOGLE.fullmatch(line):
        end = _end_of_indented(lines, at + 1)
        body = inspect.cleandoc("\n".join(["", *lines[at + 1 : end]])).splitlines()
        entries = _entries(body, _GOOGLE_ENTRY)
        return entries, end if entries else at
    if _NUMPY.fullmatch(line) and at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1]):
        end = _end_of_numpy(lines, at + 2)
        entries = _entries(lines[at + 2 : end], _NUMPY_ENTRY)
        return entries, end if entries else at
    return {}, at


def _end_of_indented(lines: list[str], at: int) -> int:
    """The first line from `at` on that is neither blank nor indented; blank lines before it stay outside."""
    end = at
    for number in range(at, len(lines)):
        if lines[number].strip() and not lines[number].startswith((" ", "\t")):
            break
        if lines[number].strip():
            end = number + 1
    return end


def _end_of_numpy(lines: list[str], at: int) -> int:
    """The line of the next underlined heading, or the end."""
    underlined = (n - 1 for n in range(at + 1, len(lines)) if _UNDERLINE.fullmatch(lines[n]))
    return next(underlined, len(lines))


def _entries(lines: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Unindented lines name parameters; indented lines below belong to them."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if line.startswith((" ", "\t")) or not line.strip():
            for name in names:
                found[name].append(line)
            continue
        entry = pattern.fullmatch(line)
        names = re.findall(r"\w+", entry["name"]) if entry else []
        first = entry.groupdict().get("text") or "" if entry else ""
        found |= {name: [first] for name in names}
    return {name: _joined(text) for name, text in found.items()}


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
