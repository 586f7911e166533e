"""Connecting: a host is resolved once, and the connection goes to an address that was checked."""

import asyncio
from ipaddress import ip_address
from typing import Any

import pytest

from jackfield.outgoing import Outgoing, OutgoingRefused, OutgoingTimedOut, OutgoingUnreachable
from jackfield.outgoing.guard import Guard, Resolve, parse_allowed, resolve_by_system
from tests.outgoing.names import Names
from tests.requirement import requirement
from tests.sources.upstream import Upstream, reply


def reroute(monkeypatch: pytest.MonkeyPatch, port: int) -> list[tuple[str, int]]:
    """Real sockets that connect to the test's server; the addresses they were told are noted."""
    loop = asyncio.get_running_loop()
    connect: Any = loop.create_connection
    told: list[tuple[str, int]] = []

    async def create_connection(factory: Any, host: str, told_port: int, **_: object) -> Any:
        told.append((host, told_port))
        return await connect(factory, "127.0.0.1", port)

    monkeypatch.setattr(loop, "create_connection", create_connection)
    return told


async def reached(resolve: Resolve, host: str, port: int, *allow: str, named: bool = False) -> None:
    """One request to `host`, as a foreign url unless `named`."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/ok"
    async with Outgoing(allow, resolve=resolve) as outgoing:
        await outgoing.request("GET", url, named_by=url if named else None, timeout=5)


def foreign(names: Resolve, *allow: str) -> Guard:
    return Guard(tuple(parse_allowed(entry) for entry in allow), resolve=names)


async def test_a_name_that_turns_private_is_connected_to_at_the_address_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names({"rebind.example": [["93.184.216.34"], ["127.0.0.1"]]})
    async with Upstream() as server:
        server.answers["/ok"] = reply(200, b"1")
        told = reroute(monkeypatch, server.port)

        await reached(names, "rebind.example", 80)
        assert names.asked == ["rebind.example"]
        assert told == [("93.184.216.34", 80)]

        with pytest.raises(OutgoingRefused):
            await reached(names, "rebind.example", 80)
        assert told == [("93.184.216.34", 80)]


async def test_of_a_names_addresses_only_the_open_ones_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names({"mixed.example": [["169.254.169.254", "10.0.0.1", "93.184.216.34", "::1"]]})
    async with Upstream() as server:
        server.answers["/ok"] = reply(200, b"1")
        told = reroute(monkeypatch, server.port)

        await reached(names, "mixed.example", 443)

        assert told == [("93.184.216.34", 443)]


async def test_a_host_that_the_config_names_is_reached_wherever_it_is() -> None:
    async with Upstream() as server:
        server.answers["/ok"] = reply(200, b"1")
        await reached(Names({"db.internal": "127.0.0.1"}), "db.internal", server.port, named=True)
        assert server.connections == 1


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    names = Names({"two.example": [["127.0.0.2", "127.0.0.1"]]})
    async with Upstream() as server:
        server.answers["/ok"] = reply(200, b"1")
        await reached(names, "two.example", server.port, "two.example")
        assert server.connections == 1


@requirement("SAFE-no-dns-oracle")
async def test_one_refusal_of_a_name_says_nothing_of_what_the_resolver_knows(caplog: pytest.LogCaptureFixture) -> None:
    names = Names({"private.example": "10.1.2.3", "empty.example": [[]], "own.example": "127.0.0.1"})
    said = set()
    for host in ("private.example", "own.example", "empty.example", "unknown.example", "a..b"):
        with pytest.raises(OutgoingRefused) as refused:
            await foreign(names).reachable(host, 80, named=False)
        assert refused.value.code == "outgoing_refused"
        said.add(str(refused.value).replace(host, "HOST"))
    [sentence] = said
    assert sentence == (
        "The request to 'HOST' was refused: the name has no address, or one that is not public. "
        "The gateway's log says which. The operator can add it to allow under [outgoing] in the config."
    )
    assert "'private.example', which resolves to 10.1.2.3, was refused: that is a private address." in caplog.text
    assert 'add "private.example" or "10.1.2.3" to allow' in caplog.text
    assert "'unknown.example' was not found" in caplog.text
    assert "'empty.example' has no address" in caplog.text


async def test_a_refusal_of_an_address_does_not_say_it_twice() -> None:
    with pytest.raises(OutgoingRefused) as refused:
        await foreign(Names({})).reachable("::ffff:169.254.169.254", 80, named=False)

    assert str(refused.value) == (
        "The request to '::ffff:169.254.169.254' was refused: that is a cloud metadata address. "
        f'To permit it, add "{ip_address("::ffff:a9fe:a9fe")}" to allow under [outgoing] in the config.'
    )


async def test_what_a_refusal_tells_to_add_permits_it() -> None:
    async with Upstream() as server:
        names = Names({"intranet.example": "127.0.0.1"})
        server.answers["/ok"] = reply(200, b"1")
        for entry in ("intranet.example", "127.0.0.1"):
            await reached(names, "intranet.example", server.port, entry)
        assert server.connections == 2


async def test_a_host_of_the_config_that_nobody_knows_is_unreachable() -> None:
    guard = foreign(Names({"empty.example": [[]]}))
    for host, why in {"nowhere": "was not found: Name or service not known", "empty": "has no address"}.items():
        with pytest.raises(OutgoingUnreachable) as failed:
            await guard.reachable(f"{host}.example", 80, named=True)
        assert str(failed.value) == f"The host '{host}.example' {why}. Check its spelling and DNS."


async def test_a_port_where_nobody_listens_is_unreachable_and_says_where() -> None:
    async with Upstream() as server:
        port = server.port

    names = Names({"gone.example": "127.0.0.1"})
    said = "The host 'gone.example' could not be reached at port {}: {}Connection refused{}. Check that it is up."
    with pytest.raises(OutgoingUnreachable) as failed:
        await reached(names, "gone.example", port, named=True)
    assert str(failed.value) == said.format(port, "127.0.0.1 (", ")")
    with pytest.raises(OutgoingUnreachable) as failed:
        await reached(names, "gone.example", port, "gone.example")
    assert str(failed.value) == said.format(port, "", "")


async def test_a_resolver_that_hangs_is_bounded_by_the_timeout() -> None:
    async def hangs(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with Outgoing(resolve=hangs) as outgoing:
        with pytest.raises(OutgoingTimedOut):
            await outgoing.request("GET", "http://slow.example/", timeout=0.05)


async def test_the_machines_own_resolver_knows_localhost() -> None:
    assert set(await resolve_by_system("localhost", 80)) <= {"127.0.0.1", "::1"}
    with pytest.raises(OutgoingRefused):
        await foreign(resolve_by_system).reachable("localhost", 80, named=False)


async def test_a_name_that_the_resolver_cannot_even_spell_is_unreachable() -> None:
    with pytest.raises(OutgoingUnreachable):
        await foreign(resolve_by_system).reachable("a..b", 80, named=True)
