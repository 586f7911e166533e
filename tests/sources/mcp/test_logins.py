"""Sources with a login: whose token each request has, what a refusal leads to, which sessions there are."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Route

from jackfield.errors import LoginNeeded
from jackfield.model.call import Done, Outcome
from jackfield.model.tool import CallKind, Tool
from jackfield.outgoing import Outgoing
from jackfield.sources.base import Begun, CompletionRequest, Look, TaskUse
from jackfield.sources.kept_listings import KeptListings
from jackfield.sources.mcp import sessions, source
from jackfield.sources.mcp.options import parse_options
from jackfield.sources.mcp.source import McpSource
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState, SourceStatus
from jackfield.store import open_store
from tests.mcp.task_upstream import CORE, MODERN, TaskUpstream, task_upstream
from tests.requirement import requirement
from tests.sources.invocations import invocation_of
from tests.sources.logins import SHARED, Logins
from tests.sources.mcp.guarded import GuardedServer, People, guarded
from tests.sources.network import surroundings_in
from tests.waiting import eventually_async

PEOPLE = {"token-ann": "ann", "token-bob": "bob"}
ERAS = [{}, {"era": "handshake"}]
ALL = {"server/discover", "initialize", "notifications/initialized", "tools/list", "resources/list", "prompts/list"}
ALL |= {"resources/templates/list", "", "subscriptions/listen"}
"""What a server shows without a login that has no secrets but in its tools."""


class Place:
    """A source over a guarded server."""

    def __init__(self, folder: Path, outgoing: Outgoing, logins: Logins, options: dict[str, Any]) -> None:
        self.changes = 0
        self.registry = SourceRegistry(on_listing=lambda: None)
        kept = options.pop("kept", KeptListings())
        given = surroundings_in(folder, outgoing=outgoing, changed=self._changed, logins=logins, kept=kept)
        self.source = McpSource("far", parse_options(options, where="sources.far"), given)
        self.logins = logins

    def _changed(self, name: str) -> None:
        self.changes += 1
        self.registry.request_refresh(name)

    @property
    def status(self) -> SourceStatus:
        return self.registry.statuses()[0]

    async def call(self, principal: str, name: str = "whoami", **more: Any) -> Outcome | Begun:
        tool = Tool(source="far", name=name)
        made = replace(invocation_of(tool, timeout_ms=20_000), principal=principal, **more)
        outcome = await self.source.execute(made)
        assert isinstance(outcome, Outcome | Begun)
        return outcome

    async def said(self, principal: str, name: str = "whoami", **more: Any) -> Any:
        outcome = await self.call(principal, name, **more)
        assert isinstance(outcome, Done), outcome
        return msgspec.json.decode(outcome.result)

    async def read(self, principal: str) -> Any:
        tool = Tool(source="far", name="note://mine", operation=CallKind.RESOURCE)
        outcome = await self.source.execute(replace(invocation_of(tool), principal=principal))
        assert isinstance(outcome, Done), outcome
        return msgspec.json.decode(outcome.result)["contents"][0]["text"]

    async def prompt(self, principal: str) -> Any:
        tool = Tool(source="far", name="mine", operation=CallKind.PROMPT)
        outcome = await self.source.execute(replace(invocation_of(tool), principal=principal))
        assert isinstance(outcome, Done), outcome
        return msgspec.json.decode(outcome.result)["messages"][0]["content"]["text"]

    async def complete(self, principal: str) -> Any:
        request = CompletionRequest(
            operation=CallKind.PROMPT, name="mine", argument={"name": "x", "value": ""}, principal=principal
        )
        return msgspec.json.decode(await self.source.complete(request))["completion"]["values"][0]


@asynccontextmanager
async def place(folder: Path, url: str, logins: Logins, **options: Any) -> AsyncIterator[Place]:
    async with Outgoing(allow=("127.0.0.1",)) as outgoing:
        made = Place(folder, outgoing, logins, {"url": url, **options})
        try:
            yield made
        finally:
            await made.registry.close()
            await made.source.close()


def app_of(tasks: TaskUpstream) -> Starlette:
    return Starlette(routes=[Route("/mcp", tasks.answer, methods=["POST"])])


def two_logins() -> Logins:
    return Logins("far", ann="token-ann", bob="token-bob")


@requirement("ID-upstream-own-token")
@pytest.mark.parametrize("options", ERAS)
async def test_of_a_thousand_interleaved_calls_each_has_its_own_persons_token(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, two_logins(), **options) as at:
        wrong: Counter[str] = Counter()
        async with asyncio.TaskGroup() as group:
            slots = asyncio.Semaphore(16)

            async def one(number: int) -> None:
                person = "ann" if number % 2 else "bob"
                acts = (at.said, at.read, at.said, at.prompt, at.said, at.complete)
                async with slots:
                    if number % 10 == 0:
                        seen: list[Any] = []
                        said = await at.said(person, "steps", report=seen.append)
                        assert [progress.message for progress in seen] in ([person], [])
                    else:
                        said = await acts[number // 2 % len(acts)](person)
                wrong[person] += said != person

            for number in range(1_000):
                group.create_task(one(number))
        assert wrong == {"ann": 0, "bob": 0}
        assert server.mixed_sessions == []
        assert {seen.person for seen in server.requests} == {"ann", "bob"}
        assert len(server.of("initialize" if options else "server/discover")) <= 2


@requirement("ID-upstream-own-token")
async def test_over_sse_each_call_has_its_own_persons_token(tmp_path: Path) -> None:
    async with guarded(People().sse_app, PEOPLE) as server:
        url = server.url.replace("/mcp", "/sse")
        async with place(tmp_path, url, two_logins(), transport="sse") as at:
            found = await asyncio.gather(*(at.said("ann" if n % 2 else "bob") for n in range(20)))
            assert found == ["bob", "ann"] * 10
            assert len([seen for seen in server.requests if seen.http == "GET"]) == 2
            with pytest.raises(LoginNeeded):
                await at.call("eve")


@requirement("ID-upstream-own-token")
@pytest.mark.parametrize("options", ERAS)
async def test_what_is_told_to_one_person_is_not_told_to_another(tmp_path: Path, options: dict[str, Any]) -> None:
    people = People()
    async with guarded(people.app, PEOPLE) as server, place(tmp_path, server.url, two_logins(), **options) as at:
        told: dict[str, list[str]] = {"ann": [], "bob": []}
        for person, heard in told.items():
            await at.source.subscribe("note://mine", heard.append, principal=person)
        await people.update("ann")
        await eventually_async(lambda: bool(told["ann"]))
        if options:
            assert told["bob"] == []
        assert server.mixed_sessions == []
        at.source.unsubscribe("note://mine", told["ann"].append, principal="ann")


@requirement("ID-upstream-own-token")
@pytest.mark.parametrize("revision", [MODERN, CORE])
async def test_a_task_is_looked_at_in_the_name_of_who_began_it(tmp_path: Path, revision: str) -> None:
    async with (
        task_upstream(revision) as tasks,
        guarded(app_of(tasks), PEOPLE) as server,
        place(tmp_path, server.url, two_logins()) as at,
    ):
        await at.source.refresh()
        for person in ("ann", "bob"):
            tool = Tool(source="far", name="must", task_support="required")
            made = replace(invocation_of(tool), principal=person, tasks=TaskUse.PREFERRED)
            begun = await at.source.execute(made)
            assert isinstance(begun, Begun)
            tasks.task.ask("sure")
            looked = await at.source.look(made, begun.reference)
            assert isinstance(looked, Look)
            before = len(server.requests)
            await at.source.halt(made, begun.reference)
            assert {seen.person for seen in server.requests[before:]} == {person}
        stranger = replace(made, principal="eve")
        with pytest.raises(LoginNeeded):
            await at.source.look(stranger, Raw(b'{"task":"task-1"}'))
        assert server.mixed_sessions == []


@requirement("ID-upstream-refused-before-acting")
@pytest.mark.parametrize("options", ERAS)
async def test_a_token_refused_in_mid_session_is_replaced_and_the_call_sent_once_more(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    people = People()
    async with guarded(people.app, PEOPLE) as server, place(tmp_path, server.url, two_logins(), **options) as at:
        assert await at.said("ann") == "ann"
        server.people = {"token-ann-2": "ann", "token-bob": "bob"}
        at.logins.of_principal["ann"].fresh = "token-ann-2"
        assert await at.said("ann") == "ann"
        assert [seen.token for seen in server.of("tools/call")] == ["token-ann", "token-ann-2"]
        assert len([seen for seen in server.refused if seen.method == "tools/call"]) == 1
        assert await at.said("bob") == "bob"
        server.people = {"token-bob": "bob"}
        with pytest.raises(LoginNeeded) as needed:
            await at.call("ann")
        assert (needed.value.source, needed.value.principal) == ("far", "ann")
        assert await at.said("bob") == "bob"


@requirement("ID-upstream-refused-before-acting")
async def test_a_call_that_needs_more_scopes_is_told_so_and_was_not_run(tmp_path: Path) -> None:
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, two_logins()) as at:
        server.needs_more = {"token-ann"}
        with pytest.raises(LoginNeeded):
            await at.call("ann")
        assert at.logins.of_principal["ann"].refusals == [(403, 'Bearer error="insufficient_scope", scope="write"')]
        assert server.of("tools/call") == []
        assert await at.said("bob") == "bob"


@requirement("ID-upstream-login-needed")
async def test_without_a_login_a_call_says_that_one_is_needed_and_nothing_reaches_the_server(tmp_path: Path) -> None:
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, two_logins()) as at:
        for act in (at.call, at.read, at.prompt, at.complete):
            with pytest.raises(LoginNeeded) as needed:
                await act("eve")
            assert needed.value.principal == "eve"
        with pytest.raises(LoginNeeded):
            await at.source.subscribe("note://mine", lambda _: None, principal="eve")
        assert server.requests == server.refused == []


@requirement("ID-upstream-own-token")
async def test_a_shared_login_is_used_for_everybody_in_one_session(tmp_path: Path) -> None:
    logins = Logins("far", **{SHARED: "token-ann"})
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, logins, era="handshake") as at:
        await at.source.open()
        await at.source.refresh()
        found = await asyncio.gather(*(at.said(f"key-{n}") for n in range(10)))
        assert found == ["ann"] * 10
        assert len(server.of("initialize")) == 1


@requirement("ID-upstream-idle-sessions")
async def test_idle_sessions_are_closed_and_those_with_calls_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions.PrincipalSessions.__init__, "__kwdefaults__", {"most": 200, "idle_seconds": 0.05})
    people = People()
    async with (
        guarded(people.app, PEOPLE) as server,
        place(tmp_path, server.url, two_logins(), era="handshake") as at,
    ):
        assert await at.said("bob") == "bob"
        people.may_end.clear()
        waiting = asyncio.create_task(at.said("ann", "wait"))
        await eventually_async(lambda: people.running == 1)
        own = at.source._own
        assert own is not None
        await eventually_async(lambda: len(own) == 1)
        await eventually_async(lambda: server.ended == ["bob"])
        people.may_end.set()
        assert await waiting == "ann"
        await eventually_async(lambda: len(own) == 0)
        assert await at.said("bob") == "bob"


@requirement("ID-upstream-idle-sessions")
async def test_beyond_the_bound_the_longest_unused_session_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions.PrincipalSessions.__init__, "__kwdefaults__", {"most": 2, "idle_seconds": 60.0})
    tokens = {f"token-{n}": f"person-{n}" for n in range(4)}
    logins = Logins("far", **{person: token for token, person in tokens.items()})
    people = People()
    async with guarded(people.app, tokens) as server, place(tmp_path, server.url, logins, era="handshake") as at:
        people.may_end.clear()
        waiting = asyncio.create_task(at.said("person-0", "wait"))
        await eventually_async(lambda: people.running == 1)
        for number in (1, 2, 3):
            assert await at.said(f"person-{number}") == f"person-{number}"
        assert at.source._own is not None
        assert list(at.source._own._sessions) == ["person-0", "person-3"]
        await eventually_async(lambda: server.ended == ["person-1", "person-2"])
        people.may_end.set()
        assert await waiting == "person-0"


@requirement("ID-upstream-login-ends")
async def test_when_a_login_ends_its_session_is_closed_at_once_and_a_new_login_has_a_new_one(tmp_path: Path) -> None:
    people = People()
    async with (
        guarded(people.app, PEOPLE) as server,
        place(tmp_path, server.url, two_logins(), era="handshake") as at,
    ):
        told: list[str] = []
        assert await at.said("ann") == await at.said("ann") == "ann"
        await at.source.subscribe("note://mine", told.append, principal="ann")
        assert len(server.of("initialize")) == 1
        at.logins.of_principal["ann"].token = None
        at.source.login_changed("ann", is_over=True)
        assert at.source._own is not None
        assert len(at.source._own) == 0
        with pytest.raises(LoginNeeded):
            await at.call("ann")
        server.people["token-ann-2"] = "ann"
        at.logins.of_principal["ann"].token = "token-ann-2"
        at.source.login_changed("ann", is_over=False)
        assert await at.said("ann") == "ann"
        assert [seen.token for seen in server.of("tools/call")] == ["token-ann", "token-ann", "token-ann-2"]
        assert len({seen.session for seen in server.of("tools/call")}) == 2
        await eventually_async(lambda: len(server.of("resources/subscribe")) >= 2)
        await eventually_async(lambda: bool(told))


@requirement("ID-upstream-login-ends")
async def test_a_call_that_runs_while_its_caller_logs_in_anew_ends_in_its_old_session(tmp_path: Path) -> None:
    people = People()
    async with (
        guarded(people.app, PEOPLE) as server,
        place(tmp_path, server.url, two_logins(), era="handshake") as at,
    ):
        people.may_end.clear()
        waiting = asyncio.create_task(at.said("ann", "wait"))
        await eventually_async(lambda: people.running == 1)
        at.source.login_changed("ann", is_over=False)
        assert await at.said("ann") == "ann"
        people.may_end.set()
        assert await waiting == "ann"
        await eventually_async(lambda: server.ended == ["ann"])


@requirement("ID-upstream-hidden-list")
async def test_a_list_that_everybody_sees_is_read_without_a_login(tmp_path: Path) -> None:
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, two_logins()) as at:
        server.open_to_all = ALL
        listing = await at.source.refresh()
        assert listing.login_needed is None
        assert {tool.name for tool in listing.tools} == {"whoami", "steps", "wait"}
        assert {seen.person for seen in server.requests} == {"nobody"}
        assert await at.said("ann") == "ann"


@requirement("ID-upstream-hidden-list")
@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_hidden_list_is_read_as_soon_as_somebody_has_a_login(tmp_path: Path, is_shared: bool) -> None:  # noqa: FBT001
    logins = Logins("far", **({SHARED: "wrong"} if is_shared else {}))
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, logins) as at:
        await at.registry.add(at.source)
        await eventually_async(lambda: at.status.status is SourceState.LOGIN_NEEDED)
        assert "jackfield login far" in (at.status.error or "")
        assert at.status.tools == 0
        principal = SHARED if is_shared else "ann"
        logins.of_principal.setdefault(principal, Logins("far", x="").of_principal["x"]).token = "token-ann"
        logins.last = principal
        at.registry.login_changed("far", None if is_shared else "ann", is_over=False)
        await eventually_async(lambda: at.status.status is SourceState.UP)
        assert at.status.tools == 3
        assert {seen.person for seen in server.requests} == {"ann"}
        logins.of_principal[principal].token = None
        at.registry.login_changed("far", None if is_shared else "ann", is_over=True)
        await eventually_async(lambda: at.status.status is SourceState.LOGIN_NEEDED)


@requirement("ID-upstream-personal-list")
async def test_resources_that_one_callers_login_shows_are_not_shown_to_others(tmp_path: Path) -> None:
    logins = two_logins()
    logins.last = "ann"
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, logins) as at:
        hidden = await at.source.refresh()
        assert len(hidden.tools) == 3
        assert [*hidden.resources] == []
        assert hidden.reads_unlisted, "their URIs can still be read, each with the caller's own login"
        assert server.of("resources/list")
    async with guarded(People().app, PEOPLE) as server, place(tmp_path, server.url, two_logins()) as at:
        server.open_to_all = ALL
        assert [*(await at.source.refresh()).resources] != []


@requirement("ID-upstream-hidden-list")
async def test_a_hidden_list_outlives_a_restart_and_its_calls_are_taken(tmp_path: Path) -> None:
    store = open_store("memory:", folder=tmp_path, data=tmp_path)
    await store.open()
    logins = two_logins()
    logins.last = "ann"
    async with guarded(People().app, PEOPLE) as server:
        async with place(tmp_path, server.url, logins, kept=KeptListings(store)) as at:
            before = await at.source.refresh()
            assert before.login_needed is None
        for login in logins.of_principal.values():
            login.token = None
        async with place(tmp_path, server.url, logins, kept=KeptListings(store)) as at:
            await at.registry.add(at.source)
            await eventually_async(lambda: at.status.status is SourceState.LOGIN_NEEDED)
            [(_, listing)] = at.registry.listings()
            assert listing.tools == before.tools
            assert listing.resources == before.resources
            invocation = replace(invocation_of(before.tools[0]), principal="bob")
            with pytest.raises(LoginNeeded):
                await at.registry.execute("far", invocation)
            logins.of_principal["bob"].token = "token-bob"
            assert isinstance(await at.registry.execute("far", invocation), Done)
    await store.close()


@requirement("ID-upstream-hidden-list")
async def test_a_list_that_one_persons_login_cannot_read_takes_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LIST_AGAIN_SECONDS", 0.01)
    store = open_store("memory:", folder=tmp_path, data=tmp_path)
    await store.open()
    logins = two_logins()
    logins.last = "ann"
    async with (
        guarded(People().app, PEOPLE) as server,
        place(tmp_path, server.url, logins, kept=KeptListings(store)) as at,
    ):
        await at.registry.add(at.source)
        await eventually_async(lambda: at.status.status is SourceState.UP)
        server.broken_for = {"ann"}
        await at.registry.refresh("far")
        await at.registry.refresh("far")
        await eventually_async(lambda: at.status.status is SourceState.LOGIN_NEEDED)
        assert at.status.tools == 3
        assert await at.said("bob") == "bob"
        await asyncio.sleep(0.02)
        assert await at.said("bob") == "bob"
        await eventually_async(lambda: at.status.status is SourceState.UP)
    await store.close()


@requirement("ID-upstream-no-login-elsewhere")
async def test_servers_of_agents_and_requests_never_get_a_login_of_that_name(tmp_path: Path) -> None:
    async with guarded(People().app, PEOPLE) as server, Outgoing(allow=("127.0.0.1",)) as outgoing:
        given = surroundings_in(tmp_path, outgoing=outgoing, changed=lambda _: None, logins=two_logins())
        options = parse_options({"url": server.url}, where="x")
        made = McpSource("far", options, given, owner="far")
        with pytest.raises(Exception, match="401"):
            await made.open()
        assert server.requests == []
        assert {seen.token for seen in server.refused} == {""}
        await made.close()


def test_the_guard_finds_a_session_that_two_people_used() -> None:
    """The checks above are worth something."""
    from tests.sources.mcp.guarded import Seen

    server = GuardedServer(People().app, PEOPLE)
    server.requests = [Seen("ann", "POST", "tools/call", "s", "a"), Seen("bob", "POST", "tools/call", "s", "b")]
    assert server.mixed_sessions == ["s"]
