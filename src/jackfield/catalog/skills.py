"""Skills: what all sources offer, under which URIs, and what the directories of skills have. Pure.

Above: `resources.py`, which has them in its snapshots and views. A skill whose URI another source has is offered, with
all its files, as `jackfield://{source}/{uri}`, where the slashes stay: a skill's name is the last folder of its URI.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.model.resource import SCHEME
from jackfield.model.skill import DIRECTORY, Renamed, Skill

_encode = msgspec.json.Encoder().encode
_SKILL_SCHEME = "skill://"


class OfferedSkill(Struct, frozen=True, kw_only=True):
    """A skill under the URI that it is offered by."""

    uri: str
    source: str
    skill: Skill
    rename: Renamed
    json: bytes
    """As clients are shown it."""


class SkillSnapshot(Struct, frozen=True, kw_only=True):
    """All of them at one moment."""

    skills: tuple[OfferedSkill, ...] = ()
    """Sorted by URI."""
    by_uri: dict[str, OfferedSkill] = {}
    files: dict[str, tuple[str, str]] = {}
    """By the URI that a file of a skill is offered by: its source, and its URI there."""
    readers: tuple[str, ...] = ()
    """Sources that are asked for skills that they do not list."""
    directories: frozenset[str] = frozenset()
    """Sources that are asked what a directory has."""


def merge_skills(
    offering: Iterable[tuple[str, Any]], *, owners: Mapping[str, str], previous: SkillSnapshot
) -> SkillSnapshot:
    """The skills of these listings, in this order. `owners`: the source of each resource that is listed."""
    offering = tuple(offering)
    by_uri: dict[str, OfferedSkill] = {}
    files: dict[str, tuple[str, str]] = {}
    for source, listing in offering:
        for skill in listing.skills:
            is_taken = skill.uri in by_uri or owners.get(skill.uri, source) != source
            offered = offered_skill(skill, is_taken=is_taken, known=previous.by_uri)
            by_uri[offered.uri] = offered
            for file in skill.files or ():
                files.setdefault(offered.rename(file.uri), (source, file.uri))
            files.setdefault(offered.uri, (source, skill.uri))
    return SkillSnapshot(
        skills=tuple(sorted(by_uri.values(), key=lambda one: one.uri)),
        by_uri=by_uri,
        files=files,
        readers=tuple(source for source, listing in offering if listing.skills_unlisted),
        directories=frozenset(source for source, listing in offering if listing.reads_directories),
    )


def offered_skill(
    skill: Skill, *, is_taken: bool = False, known: Mapping[str, OfferedSkill] | None = None
) -> OfferedSkill:
    """The skill under its own URI, or, where that is taken, under one that names its source."""
    rename = Renamed(f"{SCHEME}{quote(skill.source)}/" if is_taken else "")
    before = (known or {}).get(rename(skill.uri))
    if before is not None and before.skill == skill:
        return before
    json = _encode(skill.listed(rename))
    return OfferedSkill(uri=rename(skill.uri), source=skill.source, skill=skill, rename=rename, json=json)


class Directories:
    """What the directories of skills have, as their manifests say."""

    def __init__(self, skills: Iterable[OfferedSkill]) -> None:
        self._children: dict[str, dict[str, bool]] = {}
        """By directory: the URIs in it, and whether each is a directory itself."""
        self._sizes: dict[str, int] = {}
        self._sources: dict[str, str] = {}
        for offered in skills:
            root = offered.rename(offered.skill.root)
            self._add_parents(root, offered.source)
            for file in offered.skill.files or ():
                uri = offered.rename(file.uri)
                self._sizes[uri] = file.size
                self._add(root, uri, offered.source)

    def source_of(self, uri: str) -> str | None:
        """Whose directory this is; None: it is none that is known."""
        return self._sources.get(uri)

    def children(self, uri: str) -> list[dict[str, Any]] | None:
        """The members of a directory, by URI; None: there is no such directory."""
        found = self._children.get(uri)
        if found is None:
            return None
        return [
            {"uri": child, "name": _name(child), "mimeType": DIRECTORY}
            if is_directory
            else {"uri": child, "name": _name(child), "size": self._sizes[child]}
            for child, is_directory in sorted(found.items())
        ]

    def _add(self, root: str, uri: str, source: str) -> None:
        parts = uri[len(root) + 1 :].split("/")
        folder = root
        for part in parts[:-1]:
            child = f"{folder}/{part}"
            self._put(folder, child, source, is_directory=True)
            folder = child
        self._put(folder, uri, source, is_directory=False)

    def _add_parents(self, root: str, source: str) -> None:
        """The root, and the directories that it is in, as far as they are of skills alone."""
        self._children.setdefault(root, {})
        self._sources.setdefault(root, source)
        child = root
        while child.startswith(_SKILL_SCHEME) and "/" in child[len(_SKILL_SCHEME) :]:
            parent = child.rpartition("/")[0]
            self._put(parent, child, source, is_directory=True)
            child = parent

    def _put(self, folder: str, child: str, source: str, *, is_directory: bool) -> None:
        self._children.setdefault(folder, {})[child] = is_directory
        self._sources.setdefault(folder, source)
        if is_directory:
            self._children.setdefault(child, {})
            self._sources.setdefault(child, source)


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
