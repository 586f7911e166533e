"""Skills of a folder: `kind = "skills"`. Lists them with all their files, follows changes, and has them read.

Above: the supervisor. Below: `folder.py` reads the folder, `watching.py` tells of changes. What is read must be what
the manifest says: a file that changed a moment ago is refused until the folder has been read again.
"""

import base64
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.resource import Resource
from jackfield.model.skill import Skill, SkillFile
from jackfield.model.tool import CallKind, Tool, ToolKind
from jackfield.settings.parsing import parse_config
from jackfield.sources.base import Invocation, Listing, SourceContext, Unoffered
from jackfield.sources.foreign import shown
from jackfield.sources.skills.entries import MAX_BYTES, mismatch
from jackfield.sources.skills.folder import FoundFile, SkillFolder, read_file, text_of
from jackfield.sources.threads import Threads
from jackfield.sources.watching import Watch

NOT_FOUND = "not_found"
CHANGED = "verification_failed"


class SkillsOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sources.NAME]` with `kind = "skills"`."""

    path: Annotated[str, Meta(min_length=1)]
    """The folder, relative to the config."""
    max_concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Reads at once; without limit if left out."""


def skills_source(name: str, options: dict[str, Any], source_context: SourceContext) -> "SkillsSource":
    """The factory of this kind."""
    return SkillsSource(name, parse_config(options, SkillsOptions, where=f"sources.{name}"), source_context)


class SkillsSource:
    """The skills of one folder."""

    kind: ClassVar[str] = "skills"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, options: SkillsOptions, source_context: SourceContext) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._folder = SkillFolder(options.path, folder=source_context.folder)
        self._threads = Threads()
        self._request_refresh = partial(source_context.changed, name)
        self._watch = Watch(self._folder, threads=self._threads, changed=self._request_refresh)
        self._skills: tuple[Skill, ...] = ()
        self._resources: tuple[Resource, ...] = ()
        self._found: dict[str, FoundFile] = {}
        self._files: dict[str, tuple[Skill, SkillFile]] = {}

    async def open(self) -> None:
        self._threads.open()
        self._watch.open()

    async def refresh(self) -> Listing:
        stamp = await self._threads.run(self._folder.stamp)
        scan = await self._threads.run(self._folder.scan)
        self._watch.seen(stamp)
        skills = tuple(replace(skill, source=self.name) for skill in scan.skills)
        self._skills = self._skills if skills == self._skills else skills
        self._found = scan.files
        # Of two skills, one within the other, the inner one has the word about its SKILL.md.
        self._files = {file.uri: (skill, file) for skill in self._skills for file in skill.files or ()}
        resources = tuple(self._resource(skill, file) for skill, file in self._files.values())
        self._resources = self._resources if resources == self._resources else resources
        broken = () if scan.is_there else tuple(Unoffered(why=why, is_broken=True) for why in scan.faults)
        return Listing(skills=self._skills, resources=self._resources, faults=scan.faults, unoffered=broken)

    def _resource(self, skill: Skill, file: SkillFile) -> Resource:
        found = self._found[file.uri]
        listed = {"uri": file.uri, "name": found.path.name, "mimeType": found.media_type, "size": file.size}
        if file.uri == skill.uri:
            listed |= {"name": skill.frontmatter["name"], "description": skill.frontmatter["description"]}
        return Resource(source=self.name, uri=file.uri, listed=listed, is_foreign=False)

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.operation is CallKind.RESOURCE

    async def execute(self, invocation: Invocation) -> Outcome:
        uri = invocation.tool.name
        known, found = self._files.get(uri), self._found.get(uri)
        if known is None or found is None:
            return Failed(NOT_FOUND, f"There is no file {shown(uri)} in the skills of '{self.name}'. List them again.")
        skill, file = known
        try:
            content = await self._threads.run(partial(read_file, found.path, most=MAX_BYTES))
            why = mismatch(skill, file, content, uri=uri)
        except OSError as fault:
            why = f"it cannot be read: {fault.strerror}"
        if why is not None:
            self._folder.forget(found.path)
            self._request_refresh()
            return Failed(
                CHANGED, f"{shown(uri)} is refused, because {why}. It changed just now: list the skills again."
            )
        part: dict[str, Any] = {"uri": uri, "mimeType": found.media_type}
        text = text_of(content)
        part |= {"blob": base64.b64encode(content).decode()} if text is None else {"text": text}
        return Done(Raw(msgspec.json.encode({"contents": [part]})))

    async def close(self) -> None:
        await self._watch.close()
        self._threads.close()
