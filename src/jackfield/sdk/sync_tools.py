"""`client.tools` of the blocking client: `tools.py`, method for method, run on the loop's thread."""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from jackfield.sdk.failures import outcome_of
from jackfield.sdk.functions import Servable
from jackfield.sdk.loop import LoopThread
from jackfield.sdk.pins import DefinitionDiff
from jackfield.sdk.tools import ApprovalOverride, OnEvent, Tools
from jackfield.sdk.types import CallAnswer, EffectiveTool, Refreshed, ScenarioState, ToolInfo, ToolsChanged


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

    def effective(self, chat_id: str | None = None) -> tuple[EffectiveTool, ...]:
        """Every tool with this key's preferences applied, everywhere or in one chat."""
        return self._loop.run(self._tools.effective(chat_id))

    def diff(self, name: str) -> DefinitionDiff:
        """What changed in a foreign tool since its definition was pinned. Needs an administrator's key."""
        return self._loop.run(self._tools.diff(name))

    def accept(self, name: str, digest: str | None = None) -> ToolInfo:
        """Accept a held tool's new definition; with the `digest` of a diff, that one and no later."""
        return self._loop.run(self._tools.accept(name, digest))

    def scenarios(self) -> tuple[ScenarioState, ...]:
        """Every source of tools, and how it is."""
        return self._loop.run(self._tools.scenarios())

    def refresh(self) -> Refreshed:
        """Have every source read anew, past every cache."""
        return self._loop.run(self._tools.refresh())

    def set_enabled(self, name: str, enabled: bool, *, chat_id: str | None = None) -> EffectiveTool:  # noqa: FBT001 - the second word of the sentence
        """Switch a tool on or off for this key. Whether it asks first stays as it was."""
        return self._loop.run(self._tools.set_enabled(name, enabled, chat_id=chat_id))

    def set_approval(self, name: str, override: ApprovalOverride, *, chat_id: str | None = None) -> EffectiveTool:
        """Have a person asked before each call of a tool, or not. Whether it is on stays as it was."""
        return self._loop.run(self._tools.set_approval(name, override, chat_id=chat_id))

    def reset_preferences(self, name: str, *, chat_id: str | None = None) -> EffectiveTool:
        """Forget what this key prefers of a tool, everywhere or in that chat."""
        return self._loop.run(self._tools.reset_preferences(name, chat_id=chat_id))

    def serve(
        self,
        functions: Mapping[str, Servable] | Iterable[Servable],
        *,
        client_id: str | None = None,
        concurrency: int = 10,
        declare: str | None = None,
        grace: float = 10.0,
        on_connected: Callable[[], None] | None = None,
    ) -> None:
        """Answer calls with these functions, as `Tools.serve` does, until interrupted (Ctrl-C).

        Plain functions run in threads of their own, `async` ones and `on_connected` on the client's.
        """
        self._loop.run_to_its_end(
            self._tools.serve(
                functions,
                client_id=client_id,
                concurrency=concurrency,
                declare=declare,
                grace=grace,
                on_connected=on_connected,
            )
        )
