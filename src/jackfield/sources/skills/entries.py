"""What a skill must be to be offered, and whether what was read is what its manifest promised. Pure.

The rules are those of SEP-2640 and of the Agent Skills specification that it builds on. A skill that breaks one is left
out, with a sentence for the operator; content that does not match is not passed on.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from jackfield.model.content import OF_THE_CONNECTION
from jackfield.model.skill import DYNAMIC, SKILL_FILE, Skill, SkillFile, digest_of, root_of
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.sources.foreign import MAX_DEFINITION, MAX_URI, has_hidden, shown
from jackfield.sources.openapi.yaml_text import BadYaml, read_yaml

MAX_SKILLS = 1_000
"""Of one source."""
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""Of one skill, all files together."""
MAX_FRONTMATTER = 64 * 1024
MAX_DESCRIPTION = 1_024
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_FRONTMATTER = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)(?:^|\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+")


class BadSkill(Exception):
    """The text stands after "Skill 'x' is left out: "."""


class _File(Struct):
    uri: str
    digest: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}(?![\\s\\S])")]
    size: Annotated[int, Meta(ge=0)]


class _Entry(Struct):
    uri: str
    frontmatter: dict[str, Any]
    resources: list[_File] | str


def skills_of(definitions: Sequence[Raw], *, source: str) -> tuple[tuple[Skill, ...], list[str]]:
    """A server's skills that can be offered, and what is wrong with the others."""
    found: dict[str, Skill] = {}
    digests: dict[str, SkillFile] = {}
    faults: list[str] = []
    for raw in definitions[:MAX_SKILLS]:
        name = "of the server"
        try:
            skill = entry_of(raw, source=source)
            name = shown(skill.uri)
            _check_against_others(skill, found, digests)
        except BadSkill as fault:
            faults.append(f"Skill {name} is left out: {fault}.")
            continue
        found[skill.uri] = skill
        digests |= {one.uri: one for one in skill.files or ()}
    if len(definitions) > MAX_SKILLS:
        faults.append(f"The server lists more than {MAX_SKILLS:,} skills; the first {MAX_SKILLS:,} are used.")
    return tuple(found.values()), faults


def _check_against_others(skill: Skill, found: dict[str, Skill], digests: dict[str, SkillFile]) -> None:
    if skill.uri in found:
        raise BadSkill("it is listed twice; the first is used")
    other = next((one for one in skill.files or () if digests.get(one.uri, one) != one), None)
    if other is not None:
        raise BadSkill(f"another skill lists {shown(other.uri)} with another digest or size")


def entry_of(raw: Raw, *, source: str) -> Skill:
    """The skill that a server's entry describes. Raises `BadSkill`."""
    if len(bytes(raw)) > MAX_DEFINITION:
        raise BadSkill(f"its entry has more than the {MAX_DEFINITION:,} bytes allowed")
    try:
        entry = msgspec.json.decode(raw, type=_Entry)
        more = _more_in(msgspec.json.decode(raw, type=dict[str, Any]))
    except UNREADABLE as fault:
        raise BadSkill(f"its entry is invalid ({fault})") from None
    if isinstance(entry.resources, str):
        if entry.resources != DYNAMIC:
            raise BadSkill(f"its 'resources' is {shown(entry.resources)}, neither a list nor '{DYNAMIC}'")
        files = None
    else:
        files = tuple(SkillFile(uri=one.uri, digest=one.digest, size=one.size) for one in entry.resources)
    skill = Skill(source=source, uri=entry.uri, frontmatter=entry.frontmatter, files=files, more=more)
    check_skill(skill)
    return skill


def _more_in(entry: dict[str, Any]) -> dict[str, Any]:
    """What an entry has besides the fields that we know, as far as it can be shown."""
    more = {key: value for key, value in entry.items() if key not in _Entry.__struct_fields__}
    if isinstance(meta := more.get("_meta"), dict):
        more["_meta"] = {key: value for key, value in meta.items() if key not in OF_THE_CONNECTION}
    return {} if has_hidden(more) else more


def check_skill(skill: Skill) -> None:
    """Raise `BadSkill` where it breaks a rule."""
    uri = skill.uri
    if not uri.endswith(f"/{SKILL_FILE}") or not _is_uri(uri):
        raise BadSkill(f"its URI {shown(uri)} is not that of a {SKILL_FILE}")
    check_frontmatter(skill.frontmatter)
    name, folder = skill.frontmatter["name"], root_of(uri).rpartition("/")[2]
    if name != folder:
        raise BadSkill(f"its name is {shown(name)}, but its folder is called {shown(folder)}. Rename one of them")
    if skill.files is None:
        return
    if len(skill.files) > MAX_FILES:
        raise BadSkill(f"it has {len(skill.files):,} files; {MAX_FILES} are allowed")
    total = sum(file.size for file in skill.files)
    if total > MAX_BYTES:
        raise BadSkill(f"its files have {total:,} bytes; {MAX_BYTES:,} are allowed")
    uris = [file.uri for file in skill.files]
    outside = next((one for one in uris if not one.startswith(f"{skill.root}/") or not _is_uri(one)), None)
    if outside is not None:
        raise BadSkill(f"its file {shown(outside)} is not in its folder")
    if len(set(uris)) != len(uris):
        raise BadSkill("it lists a file twice")
    if uri not in uris:
        raise BadSkill(f"its list of files lacks its {SKILL_FILE}")


def check_frontmatter(frontmatter: Any) -> None:
    """Raise `BadSkill` unless these are the fields of a skill."""
    if not isinstance(frontmatter, dict):
        raise BadSkill("its front matter is not a mapping")
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSkill("its name is not 1 to 64 lowercase letters, digits and single hyphens between them")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION:
        raise BadSkill(f"its description is not a text of 1 to {MAX_DESCRIPTION:,} characters")
    if has_hidden(frontmatter):
        raise BadSkill("its front matter has hidden characters")
    if len(msgspec.json.encode(frontmatter)) > MAX_FRONTMATTER:
        raise BadSkill(f"its front matter has more than the {MAX_FRONTMATTER:,} bytes allowed")


def frontmatter_in(content: bytes) -> dict[str, Any]:
    """The front matter of a `SKILL.md`, every field of it. Raises `BadSkill`."""
    found = _FRONTMATTER.match(content[: MAX_FRONTMATTER + 1024])
    if found is None:
        raise BadSkill(f"its {SKILL_FILE} does not begin with front matter between two lines of '---'")
    try:
        frontmatter = read_yaml(found[1])
    except BadYaml as fault:
        raise BadSkill(f"its front matter is not valid YAML: {fault}") from None
    check_frontmatter(frontmatter)
    fields: dict[str, Any] = frontmatter
    return fields


def mismatch(skill: Skill, file: SkillFile | None, content: bytes, *, uri: str) -> str | None:
    """Why this content is not what the skill's entry says of it; None where it is."""
    if file is not None:
        if len(content) != file.size:
            return f"it has {len(content):,} bytes, and {file.size:,} by the skill's manifest"
        if digest_of(content) != file.digest:
            return "its digest is not that of the skill's manifest"
    if uri != skill.uri:
        return None
    try:
        frontmatter = frontmatter_in(content)
    except BadSkill as fault:
        return str(fault)
    return None if frontmatter == skill.frontmatter else "its front matter is not that of the skill's entry"


class _Part(Struct):
    text: str | None = None
    blob: str | None = None


class _Contents(Struct):
    contents: list[_Part]


def content_in(result: Raw) -> bytes | None:
    """The bytes of the one file that a read gave; None where it gave something else."""
    try:
        parts = msgspec.json.decode(result, type=_Contents).contents
        if len(parts) != 1:
            return None
        text, blob = parts[0].text, parts[0].blob
        return text.encode() if text is not None else base64.b64decode(blob or "", validate=True)
    except (msgspec.DecodeError, UnicodeError, binascii.Error, ValueError):
        return None


def _is_uri(text: str) -> bool:
    return len(text) <= MAX_URI and _URI.fullmatch(text) is not None and not has_hidden(text) and "/../" not in text
