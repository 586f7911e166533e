import asyncio
from collections.abc import Iterable
from ipaddress import ip_address

import httpcore2
import pytest

from jackfield.sources.outgoing import OutgoingRefused, OutgoingUnreachable
from jackfield.sources.outgoing.addresses import parse_allowed
from jackfield.sources.outgoing.network import GuardedNetwork, resolve_by_system
from tests.requirement import requirement
from tests.sources.outgoing.names import Names
from tests.sources.upstream import Upstream


class Rerouted(httpcore2.AnyIOBackend):
    """Real sockets that note the address they were told and connect to the test's server instead."""

    def __init__(self, port: int) -> None:
        self.told: list[tuple[str, int]] = []
        self._port = port

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.told.append((host, port))
        return await super().connect_tcp("127.0.0.1", self._port, timeout, local_address, socket_options)


def foreign(names: Names, *allow: str, sockets: httpcore2.AsyncNetworkBackend | None = None) -> GuardedNetwork:
    allowed = tuple(parse_allowed(entry) for entry in allow)
    return GuardedNetwork(named=False, allow=allowed, resolve=names, sockets=sockets)


async def test_a_name_that_turns_private_is_connected_to_at_the_address_that_was_looked_at() -> None:
    names = Names({"rebind.example": [["93.184.216.34"], ["127.0.0.1"]]})
    async with Upstream() as server:
        sockets = Rerouted(server.port)
        network = foreign(names, sockets=sockets)

        stream = await network.connect_tcp("rebind.example", 80)
        await stream.aclose()

        assert names.asked == ["rebind.example"]
        assert sockets.told == [("93.184.216.34", 80)]

        with pytest.raises(OutgoingRefused):
            await network.connect_tcp("rebind.example", 80)
        assert sockets.told == [("93.184.216.34", 80)]


async def test_of_a_names_addresses_only_the_open_ones_are_tried() -> None:
    names = Names({"mixed.example": [["169.254.169.254", "10.0.0.1", "93.184.216.34", "::1"]]})
    async with Upstream() as server:
        sockets = Rerouted(server.port)

        stream = await foreign(names, sockets=sockets).connect_tcp("mixed.example", 443)
        await stream.aclose()

        assert sockets.told == [("93.184.216.34", 443)]


async def test_a_host_that_the_config_names_is_reached_wherever_it_is() -> None:
    async with Upstream() as server:
        network = GuardedNetwork(named=True, allow=(), resolve=Names({"db.internal": "127.0.0.1"}))

        stream = await network.connect_tcp("db.internal", server.port)
        await stream.aclose()


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    names = Names({"two.example": [["127.0.0.2", "127.0.0.1"]]})
    async with Upstream() as server:
        stream = await foreign(names, "two.example").connect_tcp("two.example", server.port)
        await stream.aclose()


@requirement("SAFE-no-dns-oracle")
async def test_one_refusal_of_a_name_says_nothing_of_what_the_resolver_knows(caplog: pytest.LogCaptureFixture) -> None:
    names = Names({"private.example": "10.1.2.3", "empty.example": [[]], "own.example": "127.0.0.1"})
    said = set()
    for host in ("private.example", "own.example", "empty.example", "unknown.example", "a..b"):
        with pytest.raises(OutgoingRefused) as refused:
            await foreign(names).connect_tcp(host, 80)
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
        await foreign(Names({})).connect_tcp("::ffff:169.254.169.254", 80)

    assert str(refused.value) == (
        "The request to '::ffff:169.254.169.254' was refused: that is a cloud metadata address. "
        f'To permit it, add "{ip_address("::ffff:a9fe:a9fe")}" to allow under [outgoing] in the config.'
    )


async def test_what_a_refusal_tells_to_add_permits_it() -> None:
    async with Upstream() as server:
        names = Names({"intranet.example": "127.0.0.1"})
        for entry in ("intranet.example", "127.0.0.1"):
            stream = await foreign(names, entry).connect_tcp("intranet.example", server.port)
            await stream.aclose()


async def test_a_host_of_the_config_that_nobody_knows_is_unreachable() -> None:
    network = GuardedNetwork(named=True, allow=(), resolve=Names({"empty.example": [[]]}))
    for host, why in {"nowhere": "was not found: Name or service not known", "empty": "has no address"}.items():
        with pytest.raises(OutgoingUnreachable) as failed:
            await network.connect_tcp(f"{host}.example", 80)
        assert str(failed.value) == f"The host '{host}.example' {why}. Check its spelling and DNS."


async def test_a_port_where_nobody_listens_is_unreachable_and_says_where() -> None:
    async with Upstream() as server:
        port = server.port

    names = Names({"gone.example": "127.0.0.1"})
    said = "The host 'gone.example' could not be reached at port {}: {}Connection refused{}. Check that it is up."
    with pytest.raises(OutgoingUnreachable) as failed:
        await GuardedNetwork(named=True, allow=(), resolve=names).connect_tcp("gone.example", port)
    assert str(failed.value) == said.format(port, "127.0.0.1 (", ")")
    with pytest.raises(OutgoingUnreachable) as failed:
        await foreign(names, "gone.example").connect_tcp("gone.example", port)
    assert str(failed.value) == said.format(port, "", "")


async def test_a_resolver_that_hangs_is_bounded_by_the_connect_timeout() -> None:
    async def hangs(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    network = GuardedNetwork(named=False, allow=(), resolve=hangs)

    with pytest.raises(httpcore2.ConnectTimeout):
        await network.connect_tcp("slow.example", 80, timeout=0.05)


async def test_unix_sockets_are_never_opened() -> None:
    with pytest.raises(OutgoingRefused):
        await foreign(Names({})).connect_unix_socket("/run/docker.sock")


async def test_the_machines_own_resolver_knows_localhost() -> None:
    assert set(await resolve_by_system("localhost", 80)) <= {"127.0.0.1", "::1"}
    with pytest.raises(OutgoingRefused):
        await GuardedNetwork(named=False, allow=(), resolve=resolve_by_system).connect_tcp("localhost", 80)


async def test_a_name_that_the_resolver_cannot_even_spell_is_unreachable() -> None:
    with pytest.raises(OutgoingUnreachable):
        await GuardedNetwork(named=True, allow=(), resolve=resolve_by_system).connect_tcp("a..b", 80)
