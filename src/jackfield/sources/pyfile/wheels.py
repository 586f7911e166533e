"""What a sandboxed tool file may ask to have installed: packages of the index by name, nothing else.

Installing happens outside the sandbox, so nothing that the file's author wrote may run or be read there. The file's own
text never reaches uv: only the names and versions that are read here do.
Above: `files.py`. Below: `pep723.py` has read the block; `workers/environments.py` installs.
"""

import re
from typing import Any

from jackfield.workers.environments import Wheels

_PACKAGE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[A-Za-z0-9._, -]*\])?\s*"
    r"(?:\(?[<>=!~][<>=!~A-Za-z0-9.*+_, -]*\)?)?\s*(?:;[\x20-\x7e]*)?"
)
"""PEP 508 without its `name @ address`."""
_PYTHON = re.compile(r"[<>=!~][<>=!~0-9A-Za-z.*, ]*")
ANY_PYTHON = ">=3.11"
_WHEELS_ONLY = "its source has a sandbox, so only wheels of the package index are installed"


class NotWheels(Exception):
    """The file asks for more than wheels; the message stands after the file's name and a colon."""


def wheels_of(metadata: dict[str, Any]) -> Wheels:
    """What to install for this `# /// script` block. Raises `NotWheels`."""
    tools = metadata.get("tool")
    if isinstance(tools, dict) and "uv" in tools:
        raise NotWheels(f"it has [tool.uv] settings, and {_WHEELS_ONLY}, with the gateway's settings. Remove them.")
    dependencies = metadata.get("dependencies", [])
    if not isinstance(dependencies, list):
        raise NotWheels("dependencies must be a list of packages. Correct it.")
    python = metadata.get("requires-python", ANY_PYTHON)
    if not isinstance(python, str) or not _PYTHON.fullmatch(python.strip()):
        raise NotWheels(f"requires-python is {python!r}, which is no range of versions. Write '>=3.11'.")
    return Wheels(python=python.strip(), packages=tuple(_package(wanted) for wanted in dependencies))


def _package(wanted: Any) -> str:
    if not isinstance(wanted, str) or not _PACKAGE.fullmatch(wanted.strip()):
        said = f"it depends on {wanted!r}, and {_WHEELS_ONLY}: nothing from a path, an address or a repository"
        raise NotWheels(f"{said}. Name a package of the index, or move the file to a source without sandbox.")
    return wanted.strip()
