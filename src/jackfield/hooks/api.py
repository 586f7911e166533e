"""`/api/v1/hooks`: every hook in its order, and how it has fared at this gateway."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from jackfield.catalog.merge import Entry
from jackfield.hooks.service import Hook, Hooks
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time


class HookRecord(Struct, frozen=True, kw_only=True):
    """One hook. The numbers are this gateway's, since the hook was read."""

    position: int
    """1 is asked first. Those before calls and those after calls do not mix."""
    name: str
    on: Literal["before_call", "after_call"]
    origin: str
    """Its file and function, its package, or its URL."""
    tools: tuple[str, ...]
    matches: int
    """How many tools of the catalog it is asked about now."""
    timeout: int
    on_failure: Literal["deny", "allow"]
    runs: int
    failures: int
    average_ms: float | None
    last_error: str | None
    last_failed_at: Time | None


class HookList(Struct, frozen=True, kw_only=True):
    """All hooks, in the order in which they are asked."""

    hooks: list[HookRecord]


class HookApi:
    """Handlers of `/api/v1/hooks`."""

    def __init__(self, hooks: Hooks, entries: Callable[[], Sequence[Entry]]) -> None:
        self._hooks = hooks
        self._entries = entries

    async def list_hooks(self, _: Request) -> Response:
        """Every hook of the config."""
        entries = self._entries()
        listed = [_record(number, hook, entries) for number, hook in enumerate(self._hooks.all, start=1)]
        return json_response(HookList(hooks=listed))


def routes(hooks: Hooks, *, entries: Callable[[], Sequence[Entry]]) -> list[Route]:
    api = HookApi(hooks, entries)
    return [
        Route(
            method="GET",
            path="/api/v1/hooks",
            handler=api.list_hooks,
            scope=Scope.ADMIN,
            tag="Hooks",
            summary="What is asked before and after calls, in its order",
            responses={
                200: ResponseSpec(description="Every hook, what it matches and how it has fared", type=HookList)
            },
        )
    ]


def _record(number: int, hook: Hook, entries: Sequence[Entry]) -> HookRecord:
    settings = hook.settings
    return HookRecord(
        position=number,
        name=hook.name,
        on=settings.on,
        origin=settings.origin,
        tools=settings.tools,
        matches=sum(hook.matches(entry.name, entry.tool.source, entry.tool.name) for entry in entries),
        timeout=settings.timeout,
        on_failure=settings.on_failure,
        runs=hook.runs,
        failures=hook.failures,
        average_ms=round(hook.total_ms / hook.runs, 3) if hook.runs else None,
        last_error=hook.last_error,
        last_failed_at=None if hook.last_failed_at is None else iso_time(hook.last_failed_at),
    )
