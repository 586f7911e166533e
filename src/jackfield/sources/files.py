"""Tools from Python files: `kind = "files"`. Reads them, follows their changes, and has them run.

Above: the supervisor. Below: `pyfile/` reads a file's text, `watching.py` tells of changes; `inprocess.py` runs the
functions of a plain file, `workerfile.py` those of a file with PEP 723 metadata, in processes of its own.
"""

import asyncio
import io
import itertools
import re
import tokenize
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.model.call import Failed, Outcome
from jackfield.model.tool import Tool, ToolKind
from jackfield.settings.parsing import parse_config
from jackfield.settings.types import SandboxSettings
from jackfield.sources.base import Invocation, Listing, SourceContext, Unoffered
from jackfield.sources.context import Lent
from jackfield.sources.inprocess import FileVersion, InProcessTool
from jackfield.sources.pyfile.pep723 import NotWheels, wheels_of
from jackfield.sources.pyfile.reader import FileFunction, FileReading, read_file
from jackfield.sources.threads import Threads
from jackfield.sources.watching import Globs, Stamp, Watch
from jackfield.sources.workerfile import WorkerFile, WorkerTool
from jackfield.workers.worker import WorkerOptions

Seconds = Annotated[float, Meta(gt=0)]
IdleSeconds = Annotated[float, Meta(ge=0.05)]
"""A shorter period could end before the call that a worker was started for is given to it, again and again."""
_MOST_LINES = 50
_FUNCTIONS = re.compile(r"^(?:async[ \t]+)?def[ \t]+([A-Za-z]\w*)", re.MULTILINE)
_PACK = re.compile(r"""^pack[ \t]*=[ \t]*["'](\w+)["']""", re.MULTILINE)
"""What a file's tools are called, as far as that can be read where Python cannot read the file."""
_NO_BLOCK = (
    "has no '# /// script' block, so it would run in the gateway's process and not in the sandbox. "
    "Begin it with one, or move it to a source without sandbox."
)


class FilesOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sources.NAME]` with `kind = "files"`; times are in seconds."""

    path: str | Annotated[tuple[str, ...], Meta(min_length=1)]
    """A glob of files, relative to the config, or several."""
    config: dict[str, Any] = {}
    """What tools read as `ctx.config`."""
    secrets: tuple[str, ...] = ()
    """Names of secrets that tools may read with `ctx.secret`."""
    call_timeout: Seconds | None = None
    """For tools without a timeout of their own."""
    max_concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Calls at once; without limit if left out."""
    idle_timeout: IdleSeconds = 600
    """This and the rest are for files that run in worker processes."""
    install_timeout: Seconds = 600
    """For installing the packages of a file."""
    start_timeout: Seconds = 30
    """For the start of a worker."""
    processes: Annotated[int, Meta(ge=1, le=64)] = 1
    """Workers of one file."""
    threads: Annotated[int, Meta(ge=1, le=1024)] = 16
    """How many plain functions of a worker run at once; `async def` has no such limit."""
    eager: bool = False
    """Start workers when the file is read, not at the first call."""
    env: dict[str, str] = {}
    """What a worker's environment has besides PATH and HOME."""
    sandbox: bool | SandboxSettings = False
    """Whether workers see only what they need; a table says more about it."""
    calls: tuple[str, ...] | None = None
    """Which tools these may call, as globs; None: none from a sandbox, else all that their caller may."""

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def confines(self) -> bool:
        """Whether the tools are strangers to the machine: `none` is a sandbox of limits only."""
        return self.sandbox is True or (isinstance(self.sandbox, SandboxSettings) and self.sandbox.kind != "none")

    @property
    def callable(self) -> tuple[str, ...] | None:
        """The globs of the tools that these may call; None: no limit."""
        return () if self.calls is None and self.confines else self.calls

    @property
    def worker_options(self) -> WorkerOptions:
        return WorkerOptions(
            env=self.env,
            processes=self.processes,
            threads=self.threads,
            idle_timeout=self.idle_timeout,
            start_timeout=self.start_timeout,
            install_timeout=self.install_timeout,
            eager=self.eager,
            sandbox=SandboxSettings() if self.sandbox is True else self.sandbox or None,
            wheels_only=self.confines,
        )

    @property
    def timeout_ms(self) -> int | None:
        return None if self.call_timeout is None else max(1, round(self.call_timeout * 1000))


def files_source(name: str, options: dict[str, Any], source_context: SourceContext) -> "FilesSource":
    """The factory of this kind."""
    parsed = parse_config(options, FilesOptions, where=f"sources.{name}")
    if isinstance(parsed.sandbox, SandboxSettings) and (parsed.sandbox.kind == "container" or parsed.sandbox.container):
        said = f"sources.{name}.sandbox: a tool file's worker speaks over a socket that no container runtime passes on."
        raise ConfigError(f'{said} Leave container out, and take kind = "auto".')
    return FilesSource(name, parsed, source_context)


class FilesSource:
    """The tools of all files that match, each version of a file loaded at most once."""

    kind: ClassVar[str] = "files"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, options: FilesOptions, source_context: SourceContext) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._timeout_ms = options.timeout_ms
        self._worker_options = options.worker_options
        self._lent = Lent(
            source=name,
            config=options.config,
            secrets=frozenset(options.secrets),
            source_context=source_context,
            calls=options.callable,
        )
        self._globs = Globs(options.patterns, folder=source_context.folder)
        self._threads = Threads()
        self._watch = Watch(self._globs, threads=self._threads, changed=lambda: source_context.changed(name))
        self._files: dict[str, _File] = {}
        self._versions: dict[str, FileVersion | WorkerFile] = {}
        self._dropped: set[WorkerFile] = set()
        """Replaced, and perhaps not yet done with the calls they had."""
        self._tools: dict[str, InProcessTool | WorkerTool] = {}
        self._warming: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._threads.open()
        self._watch.open()

    async def refresh(self) -> Listing:
        scan = await self._threads.run(self._scan)
        self._watch.seen(scan.stamp)
        if self._worker_options.sandbox is not None:
            scan = await self._kept_inside(scan, self._worker_options.sandbox)
        offers, clashes = named_apart({label: file.reading for label, file in scan.files.items()})
        self._take_over(scan.files, offers)
        faults = (*scan.faults, *(fault for file in scan.files.values() for fault in file.reading.faults), *clashes)
        broken = tuple(_broken(file) for file in scan.files.values() if file.reading.is_broken)
        return Listing(tools=tuple(self._tool(offer) for offer in offers), faults=faults, unoffered=broken)

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._tools

    async def execute(self, invocation: Invocation) -> Outcome:
        tool = self._tools.get(invocation.tool.name)
        if tool is None:
            return Failed("tool_error", f"'{invocation.tool.name}' is no longer in its file. List the tools again.")
        return await tool.run(invocation)

    async def close(self) -> None:
        await self._watch.close()
        for task in self._warming:
            task.cancel()
        for version in self._versions.values():
            self._drop(version)
        await asyncio.gather(*(file.close() for file in self._dropped))
        self._files, self._versions = {}, {}  # opened again, it loads every file anew
        self._threads.close()

    @property
    def open_seconds(self) -> float:
        return 0.0

    def doing(self) -> str | None:
        return None

    def broken(self) -> tuple[str, ...]:
        """Why files could not be loaded, or their workers started, when that was tried last."""
        return tuple(fault for one in self._versions.values() if (fault := one.load_fault) is not None)

    def last_words(self) -> tuple[str, ...]:
        """The syntax errors of files that could not be read, and the tracebacks of those that could not be loaded."""
        traces = [file.reading.trace for file in self._files.values()]
        traces += [one.load_trace for one in self._versions.values()]
        redact = self._lent.source_context.worker_host.redact
        return tuple(line for trace in traces if trace is not None for line in redact(trace).splitlines())[
            -_MOST_LINES:
        ]

    def _scan(self) -> "_Scan":
        """Runs in a thread. The stamp is taken first, so that a change while reading shows as a change."""
        stamp = self._globs.stamp()
        files: dict[str, _File] = {}
        faults = [self._no_match(pattern) for pattern in self._globs.unmatched()]
        for label, path in self._globs.files().items():
            try:
                text = _decoded(path.read_bytes())
            except OSError as error:
                faults.append(f"{label} cannot be read: {error.strerror}. Check the file and its permissions.")
            except _NotText as error:
                faults.append(f"{label}, line {error.line}: {error}. Save the file as UTF-8.")
            else:
                known = self._files.get(label)
                same = known if known is not None and known.text == text else None
                files[label] = same or _File(path=path, text=text, reading=read_file(text, label=label))
        return _Scan(stamp=stamp, files=files, faults=tuple(faults))

    async def _kept_inside(self, scan: "_Scan", sandbox: SandboxSettings) -> "_Scan":
        """Without the files that would run outside of the sandbox, or have something built there."""
        outside: set[str] = set()
        faults: list[str] = []
        for label, file in scan.files.items():
            script = file.reading.script
            if script is None:
                outside.add(label)
                if file.reading.functions:
                    faults.append(f"{label} {_NO_BLOCK}")
            elif self._worker_options.wheels_only:
                try:
                    wheels_of(script.metadata or {})
                except NotWheels as fault:
                    outside.add(label)
                    faults.append(f"{label}, line {script.line}: {fault}")
        unusable = await self._lent.source_context.worker_host.sandboxes.fault(sandbox)
        return _Scan(
            stamp=scan.stamp,
            files={label: file for label, file in scan.files.items() if label not in outside},
            faults=(*scan.faults, *faults, *([unusable] if unusable else [])),
        )

    def _no_match(self, pattern: str) -> str:
        label = self._globs.label(self._globs.folder / pattern)
        where = f"sources.{self.name}.path"
        if (self._globs.folder / pattern).is_dir():
            return f"{where}: '{label}' is a folder. Write '{label}/*.py' for the Python files in it."
        return f"{where}: no file matches '{label}'. Put a tool file there, or correct the path."

    def _take_over(self, files: dict[str, "_File"], offers: list["FileOffer"]) -> None:
        """From now on calls go to these files. A file with the same text as before keeps its loaded module."""
        versions: dict[str, FileVersion | WorkerFile] = {}
        for label, file in files.items():
            if label in self._versions and self._files.get(label) is file:
                versions[label] = self._versions.pop(label)
            else:
                versions[label] = self._version(label, file)
        for replaced in self._versions.values():
            self._drop(replaced)
        self._files, self._versions = files, versions
        self._tools = {offer.name: versions[offer.label].tool(offer.function.name) for offer in offers}

    def _version(self, label: str, file: "_File") -> FileVersion | WorkerFile:
        if file.reading.script is None:
            return FileVersion(file.path, label=label, text=file.text, threads=self._threads, lent=self._lent)
        metadata = file.reading.script.metadata or {}
        worker = WorkerFile(
            file.path,
            label=label,
            text=file.text,
            sequential=file.reading.runs_as_script,
            options=self._worker_options,
            lent=self._lent,
            wheels=wheels_of(metadata) if self._worker_options.wheels_only else None,
        )
        if self._worker_options.eager:
            warming = asyncio.create_task(worker.warm())
            self._warming.add(warming)
            warming.add_done_callback(self._warming.discard)
        return worker

    def _drop(self, version: FileVersion | WorkerFile) -> None:
        version.drop()
        if isinstance(version, WorkerFile):
            self._dropped = {file for file in self._dropped if not file.has_ended} | {version}

    def _tool(self, offer: "FileOffer") -> Tool:
        return Tool(
            source=self.name,
            name=offer.name,
            description=offer.function.description,
            input_schema=offer.function.input_schema,
            output_schema=offer.function.output_schema,
            kind=self.tool_kind,
            visible=False,
            timeout_ms=self._timeout_ms,
        )


def _broken(file: "_File") -> Unoffered:
    """A file that offers nothing as it is, with the names that its functions would have."""
    pack = _PACK.search(file.text)
    prefix = f"{pack.group(1)}_" if pack else ""
    names = tuple(prefix + name for name in _FUNCTIONS.findall(file.text))
    return Unoffered(names=names, why=" ".join(file.reading.faults), is_broken=True)


class FileOffer(Struct, frozen=True):
    """One function under the name it got."""

    name: str
    label: str
    function: FileFunction


def named_apart(readings: dict[str, FileReading]) -> tuple[list[FileOffer], list[str]]:
    """Every function with a name of its own, and a sentence for each that could not have the one it wanted."""
    offers: dict[str, FileOffer] = {}
    faults: list[str] = []
    for label, function in ((label, function) for label, reading in readings.items() for function in reading.functions):
        name = function.tool_name
        if name in offers:
            name = _free_name(f"{PurePosixPath(label).stem}_{name}", offers)
            faults.append(
                f"{label}, line {function.line}: '{function.tool_name}' is also a tool of "
                f"{offers[function.tool_name].label}, so this one is called '{name}'. "
                "Set pack in one of the two files."
            )
        offers[name] = FileOffer(name, label, function)
    return list(offers.values()), faults


def _free_name(wanted: str, taken: dict[str, FileOffer]) -> str:
    numbered = (f"{wanted}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([wanted], numbered) if name not in taken)


class _File(Struct, frozen=True, kw_only=True):
    path: Path
    text: str
    reading: FileReading


class _Scan(Struct, frozen=True, kw_only=True):
    """The files as they were at one moment."""

    stamp: Stamp
    files: dict[str, _File]
    faults: tuple[str, ...]


class _NotText(Exception):
    def __init__(self, reason: str, *, line: int) -> None:
        super().__init__(reason)
        self.line = line


def _decoded(data: bytes) -> str:
    """The file's text as Python reads it: its coding line or UTF-8, and every line end as one newline."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except SyntaxError as error:
        raise _NotText(error.msg, line=1) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _NotText(f"a byte that is not {error.encoding} text", line=line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
