"""The blocking client: the same surface as `Client`, for programs without an event loop.

Every method is the asynchronous one, run to its end on a private event loop's thread. Above: programs. Below:
`client.py` and `loop.py`.
"""

from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any, Self

from jackfield.sdk.calls import Calls
from jackfield.sdk.client import Client
from jackfield.sdk.failures import outcome_of
from jackfield.sdk.loop import LoopThread
from jackfield.sdk.tools import OnEvent, Tools
from jackfield.sdk.types import CallAnswer, CallEvent, CallPage, CallRecord, Readiness, ToolInfo, ToolsChanged


class SyncTools:
    """`Tools`, blocking."""

    def __init__(self, tools: Tools, loop: LoopThread) -> None:
        self._tools = tools
        self._loop = loop

    def list(self) -> tuple[ToolInfo, ...]:
        """Every tool, by name. A catalog that has not changed is not sent again."""
        return self._loop.run(self._tools.list())

    def get(self, name: str) -> ToolInfo:
        """One tool. Raises `ToolNotFound`."""
        return self._loop.run(self._tools.get(name))

    def search(self, query: str, *, limit: int | None = None) -> tuple[ToolInfo, ...]:
        """The tools that fit the words best, best first."""
        return self._loop.run(self._tools.search(query, limit=limit))

    def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        chat_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        on_event: OnEvent | None = None,
        **kwargs: Any,
    ) -> Any:
        """One call, and its plain result; raises as `Tools.call` does. `on_event` is told on another thread."""
        answer = self.start(
            name,
            arguments,
            timeout=timeout,
            agent=agent,
            space_id=space_id,
            chat_id=chat_id,
            run_id=run_id,
            idempotency_key=idempotency_key,
            on_event=on_event,
            **kwargs,
        )
        return outcome_of(name, answer)

    def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        chat_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        on_event: OnEvent | None = None,
        **kwargs: Any,
    ) -> CallAnswer:
        """The same call, and the gateway's whole answer, whether it is done, failed or pending."""
        return self._loop.run(
            self._tools.start(
                name,
                arguments,
                timeout=timeout,
                agent=agent,
                space_id=space_id,
                chat_id=chat_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
                on_event=on_event,
                **kwargs,
            )
        )

    def follow(self) -> Generator[ToolsChanged, None, None]:
        """Every change of the catalog from now on, across reconnects, until the iteration is left."""
        return self._loop.iterate(self._tools.follow())


class SyncCalls:
    """`Calls`, blocking."""

    def __init__(self, calls: Calls, loop: LoopThread) -> None:
        self._calls = calls
        self._loop = loop

    def get(self, call_id: str) -> CallRecord:
        """One call's record. Raises `CallNotFound`."""
        return self._loop.run(self._calls.get(call_id))

    def list(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> CallPage:
        """One page of calls, newest first; `cursor` is the page before's `next_cursor`."""
        return self._loop.run(
            self._calls.list(status=status, tool=tool, agent=agent, run_id=run_id, limit=limit, cursor=cursor)
        )

    def iterate(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        page_size: int | None = None,
    ) -> Generator[CallRecord, None, None]:
        """Every call that fits, newest first, page after page."""
        return self._loop.iterate(
            self._calls.iterate(status=status, tool=tool, agent=agent, run_id=run_id, page_size=page_size)
        )

    def cancel(self, call_id: str) -> CallRecord:
        """Stop a call that is not settled, and its record after that. Raises `Conflict` for a settled one."""
        return self._loop.run(self._calls.cancel(call_id))

    def follow(self, *, tool: str | None = None, agent: str | None = None) -> Generator[CallEvent, None, None]:
        """What happens to calls from now on, across reconnects, until the iteration is left."""
        return self._loop.iterate(self._calls.follow(tool=tool, agent=agent))


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

    @property
    def url(self) -> str:
        return self._client.url

    def ready(self) -> Readiness:
        """Whether the gateway takes calls, and the state of its store and sources. Needs no key."""
        return self._loop.run(self._client.ready())

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
