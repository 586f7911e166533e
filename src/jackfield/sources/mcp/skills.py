"""The skills of one MCP server: what it lists, and whether what is read of them is what it listed (SEP-2640).

Above: `source.py`. Below: `sources/skills/entries.py`. A server's digests prove nothing but that its entry and its
content agree; where they do not, the content is refused, and the operator sees why until they do again.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from jackfield.errors import SourceUnavailable
from jackfield.model.call import Done, Failed
from jackfield.model.skill import EXTENSION, SKILL_FILE, Skill, SkillFile
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from jackfield.sources.base import Listing
from jackfield.sources.foreign import has_hidden, shown
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.handshake import Agreement
from jackfield.sources.mcp.transport import McpClientError
from jackfield.sources.skills.entries import BadSkill, content_in, entry_of, mismatch, skills_of

CODE = "verification_failed"
MAX_FAULTS = 20
MAX_UNLISTED = 200
"""Skills that were asked for by URI and are remembered."""
MAX_CHILDREN = 2_000
"""Of a directory, in one page."""


class _Got(Struct):
    skill: Raw


class _Directory(Struct):
    resources: list[dict[str, Any]]
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Known(Struct, frozen=True):
    """A file of a skill; `file` is None where the skill's content is made on demand."""

    skill: Skill
    file: SkillFile | None


class ServerSkills:
    """What is known of a server's skills."""

    def __init__(self, source: str, *, changed: Callable[[], None]) -> None:
        """`changed`: the server describes a skill otherwise than it listed it."""
        self._source = source
        self._changed = changed
        self._given: tuple[Skill, ...] = ()
        self._listed: dict[str, Skill] = {}
        self._asked: OrderedDict[str, Skill] = OrderedDict()
        """Those that are not listed."""
        self._files: dict[str, _Known] = {}
        self._failed: dict[str, tuple[_Known, str]] = {}
        """By URI: what was read last and did not match, by which entry, and why."""

    def take(self, listing: Listing, definitions: Sequence[Raw], agreement: Agreement) -> Listing:
        """The listing with the server's skills as it lists them now."""
        declared = agreement.extension(EXTENSION)
        if declared is None:
            return listing
        skills, faults = skills_of(definitions, source=self._source)
        self._given = self._given if skills == self._given else skills
        self._listed = {skill.uri: skill for skill in skills}
        self._index()
        self._failed = {uri: failed for uri, failed in self._failed.items() if self._files.get(uri) == failed[0]}
        refused = [f"{shown(uri)} was refused: {why}." for uri, (_, why) in self._failed.items()]
        return replace(
            listing,
            skills=self._given,
            skills_unlisted=True,
            reads_directories=declared.get("directoryRead") is True,
            faults=(*listing.faults, *_bounded([*faults, *refused])),
        )

    @property
    def listed(self) -> tuple[Skill, ...]:
        return self._given

    def take_over(self, listed: "ServerSkills") -> None:
        """The server's list is what another session with it has read."""
        self._given = listed.listed
        self._listed = {skill.uri: skill for skill in self._given}
        self._index()

    def _index(self) -> None:
        self._files = {}
        for skill in (*self._asked.values(), *self._listed.values()):
            if skill.files is None:
                self._files.setdefault(skill.uri, _Known(skill, None))
            for file in skill.files or ():
                if file.uri == skill.uri or file.uri not in self._files:
                    self._files[file.uri] = _Known(skill, file)

    async def get(self, uri: str, connection: Connection) -> Skill | None:
        """The skill as the server describes it now; None where it has none there."""
        if connection.agreement.extension(EXTENSION) is None:
            return None
        try:
            raw = await connection.skill(uri)
            skill = entry_of(msgspec.json.decode(raw, type=_Got).skill, source=self._source)
        except UNREADABLE as fault:
            raise SourceUnavailable(f"Skill {shown(uri)} cannot be offered: the answer is invalid ({fault}).") from None
        except BadSkill as fault:
            raise SourceUnavailable(f"Skill {shown(uri)} cannot be offered: {fault}.") from None
        except RpcError as error:
            if error.number == INVALID_PARAMS:
                return None
            raise
        if skill.uri != uri:
            return None
        self._remember(skill)
        return skill

    def _remember(self, skill: Skill) -> None:
        if (before := self._listed.get(skill.uri)) is not None:
            self._listed[skill.uri] = skill
            if before != skill:
                self._changed()
        else:
            self._asked[skill.uri] = skill
            self._asked.move_to_end(skill.uri)
            if len(self._asked) > MAX_UNLISTED:
                self._asked.popitem(last=False)
        self._index()

    async def verified(self, uri: str, outcome: Done | Failed, connection: Connection) -> Done | Failed:
        """What was read, unless it is of a skill and not what the server's own entry says, also after a second look."""
        known = self._files.get(uri)
        if known is None or isinstance(outcome, Failed):
            return outcome
        why = _mismatch(known, outcome, uri)
        if why is not None and await self._refreshed(known.skill.uri, connection):
            again = self._files.get(uri)
            why = _mismatch(again, outcome, uri) if again is not None else "the skill no longer lists it"
            known = again or known
        if why is None:
            self._failed.pop(uri, None)
            return outcome
        if len(self._failed) < MAX_FAULTS:
            self._failed[uri] = (known, why)
        said = f"{shown(uri)} is refused, because {why}."
        return Failed(CODE, f"{said} The skill may have changed: list the skills again, or ask its server's owner.")

    async def _refreshed(self, uri: str, connection: Connection) -> bool:
        """Whether the server has said anew what the skill is."""
        try:
            return await self.get(uri, connection) is not None
        except (McpClientError, RpcError, SourceUnavailable):
            return False


def _mismatch(known: _Known, outcome: Done, uri: str) -> str | None:
    if known.file is None and not uri.endswith(f"/{SKILL_FILE}"):
        return None
    content = content_in(outcome.result)
    if content is None:
        return "it is not one file"
    return mismatch(known.skill, known.file, content, uri=uri)


async def read_directory(uri: str, cursor: str | None, connection: Connection) -> Raw:
    """What a directory has, by a server that says that it can tell. Raises `RpcError` or `McpClientError`."""
    declared = connection.agreement.extension(EXTENSION)
    if declared is None or declared.get("directoryRead") is not True:
        raise RpcError(METHOD_NOT_FOUND, "The server does not read directories.")
    raw = await connection.directory(uri, cursor)
    try:
        page = msgspec.json.decode(raw, type=_Directory)
    except UNREADABLE as fault:
        raise McpClientError(f"The server's directory is not valid MCP: {fault}.") from None
    children = [child for child in page.resources[:MAX_CHILDREN] if isinstance(child.get("uri"), str)]
    shown_children = [child for child in children if not has_hidden(child)]
    members: dict[str, Any] = {"resources": shown_children}
    return Raw(msgspec.json.encode(members if page.cursor is None else {**members, "nextCursor": page.cursor}))


def _bounded(faults: list[str]) -> list[str]:
    if len(faults) <= MAX_FAULTS:
        return faults
    return [*faults[:MAX_FAULTS], f"{len(faults) - MAX_FAULTS:,} more of its skills have faults."]
