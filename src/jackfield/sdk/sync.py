"""The blocking client: the same surface as `Client`, for programs without an event loop.

Every method is the asynchronous one, run to its end on a private event loop's thread. Above: programs. Below:
`client.py`, `sync_tools.py`, `sync_calls.py` and `loop.py`.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from jackfield.sdk.client import Client
from jackfield.sdk.loop import LoopThread
from jackfield.sdk.pins import DefinitionDiff, SourceInfo, Sources
from jackfield.sdk.sync_agents import SyncAgents, SyncRuns
from jackfield.sdk.sync_calls import SyncCalls
from jackfield.sdk.sync_sessions import SyncSessions
from jackfield.sdk.sync_spaces import SyncSpaces
from jackfield.sdk.sync_tools import SyncTools
from jackfield.sdk.types import Identity, Readiness, ToolInfo
from jackfield.sdk.workers import WorkerInfo, WorkerLine, Workers


class SyncWorkers:
    """`client.workers` for blocking programs."""

    def __init__(self, workers: Workers, loop: LoopThread) -> None:
        self._workers = workers
        self._loop = loop

    def log(self, name: str, *, limit: int = 200, after: int = 0) -> list[WorkerLine]:
        """The newest lines of one worker, by its file's name; `after`: only those after the line of that number."""
        return self._loop.run(self._workers.log(name, limit=limit, after=after))

    def list(self) -> list[WorkerInfo]:
        """Every worker as it is now."""
        return self._loop.run(self._workers.list())


class SyncSources:
    """`client.sources` for blocking programs."""

    def __init__(self, sources: Sources, loop: LoopThread) -> None:
        self._sources = sources
        self._loop = loop

    def list(self) -> tuple[SourceInfo, ...]:
        """Every source as it is now."""
        return self._loop.run(self._sources.list())

    def get(self, name: str) -> SourceInfo:
        """One source as it is now, with what its process said last."""
        return self._loop.run(self._sources.get(name))

    def diff(self, name: str) -> tuple[DefinitionDiff, ...]:
        """The changes of all tools of a source that are held."""
        return self._loop.run(self._sources.diff(name))

    def accept(self, name: str, digests: Mapping[str, str] | None = None) -> tuple[ToolInfo, ...]:
        """Accept the changes of a source's tools: those with these digests, by tool, or all that are held now."""
        return self._loop.run(self._sources.accept(name, digests))


class SyncClient:
    """A gateway, for blocking programs. Use it in `with`, or `close()` it. Arguments as in `Client`."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float | None = 60.0,
        retries: int = 2,
        retry_after: float = 0.0,
    ) -> None:
        self._client = Client(url, key, timeout=timeout, retries=retries, retry_after=retry_after)
        self._loop = LoopThread()
        self.tools = SyncTools(self._client.tools, self._loop)
        self.calls = SyncCalls(self._client.calls, self._loop)
        self.agents = SyncAgents(self._client.agents, self._loop)
        self.runs = SyncRuns(self._client.runs, self._loop)
        self.spaces = SyncSpaces(self._client.spaces, self._loop)
        self.workers = SyncWorkers(self._client.workers, self._loop)
        self.sources = SyncSources(self._client.sources, self._loop)
        self.sessions = SyncSessions(self._client.sessions, self._loop)

    @property
    def url(self) -> str:
        return self._client.url

    def ready(self) -> Readiness:
        """Whether the gateway takes calls, and the state of its store; with a key, that of its sources too."""
        return self._loop.run(self._client.ready())

    def identity(self) -> Identity:
        """Whose key this is, and what it is good for."""
        return self._loop.run(self._client.identity())

    def close(self) -> None:
        if self._loop.is_running:
            self._loop.run(self._client.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SyncClient({self.url!r})"
