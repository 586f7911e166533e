"""Agent skills as a source offers them: a folder with a `SKILL.md`, its front matter, and a manifest of its files.

Pure. MCP's extension `io.modelcontextprotocol/skills` (SEP-2640) has the words; files of a skill are resources.
"""

import hashlib
from typing import Any

from msgspec import Struct

EXTENSION = "io.modelcontextprotocol/skills"
SKILL_FILE = "SKILL.md"
DYNAMIC = "dynamic"
DIRECTORY = "inode/directory"
"""The media type of a directory."""


class SkillFile(Struct, frozen=True, kw_only=True):
    """One file of a skill, with the digest and size of its content."""

    uri: str
    digest: str
    """`sha256:` and 64 lowercase hexadecimal digits."""
    size: int


class Skill(Struct, frozen=True, kw_only=True):
    """One skill, by the URI of its `SKILL.md`."""

    source: str
    uri: str
    frontmatter: dict[str, Any]
    """That of `SKILL.md`, with every field its author wrote."""
    files: tuple[SkillFile, ...] | None
    """All of them, `SKILL.md` included; None: its content is made on demand, so nothing is known of it."""
    more: dict[str, Any] = {}
    """What else its entry has, such as `_meta`."""

    @property
    def root(self) -> str:
        """The URI of its folder."""
        return root_of(self.uri)

    def listed(self, rename: "Renamed") -> dict[str, Any]:
        """As clients are shown it, by the URIs that `rename` gives."""
        files: Any = DYNAMIC
        if self.files is not None:
            files = [{"uri": rename(one.uri), "digest": one.digest, "size": one.size} for one in self.files]
        return {"uri": rename(self.uri), "frontmatter": self.frontmatter, "resources": files, **self.more}


class Renamed(Struct, frozen=True):
    """URIs as they are offered: with a prefix where another source has them too."""

    prefix: str = ""

    def __call__(self, uri: str) -> str:
        return f"{self.prefix}{uri}"


def root_of(uri: str) -> str:
    """The URI of the folder that this `SKILL.md` is in."""
    return uri.removesuffix(f"/{SKILL_FILE}")


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
