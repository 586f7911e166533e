"""A busy space whose followers are cut off again and again, each time in another place.

Everybody follows with the SDK, through a proxy that drops connections at random and sends each new one to another
gateway where there are two. Meanwhile messages are said, some of them piece by piece, and visible calls come with their
arguments. In the end each follower has every durable event once and in order, and the right texts.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from jackfield.gateway.gateway import Gateway
from jackfield.model.space import Sender
from jackfield.sdk import Client, GatewayUnreachable, SpaceEvent
from jackfield.spaces import transactions as space_tx
from stress.report import Report, progress_of
from stress.stores import gateways_on
from tests.harness.in_process import serve_on_port

SPACE = "busy"
FOLLOWERS = 8
SPEAKERS = 4
KEY = "key-of-the-busy-space"
LAST_WORD = "that was all"
ENDS_WITHIN = 60.0
CUT_AFTER = (0.01, 0.25)
ANN = Sender("ann", "Ann", "person")
_WORDS = ("one ", "two ", "drei ", "quatre ", "пять ", "六 ", "🙂 ", '"quoted" ', "\n")


async def cut_streams(store_url: str, folder: Path, *, cuts: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"streams cut, {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        _give_key(folder, gateways)
        running = await stack.enter_async_context(gateways_on(store_url, folder, count=gateways))
        await running[0].store.write(partial(space_tx.create_space, SPACE, name="Busy"))
        urls = [await stack.enter_async_context(serve_on_port(gateway)) for gateway in running]
        ports = [int(url.rpartition(":")[2]) for url in urls]
        proxy = await stack.enter_async_context(_proxy(ports, chance))
        clients = [
            await stack.enter_async_context(Client(f"http://127.0.0.1:{proxy.port}", KEY)) for _ in range(FOLLOWERS)
        ]
        followers = [Follower(number) for number in range(FOLLOWERS)]
        following = [
            asyncio.create_task(follower.follow(client)) for follower, client in zip(followers, clients, strict=True)
        ]
        await _talk_until_cut(running, proxy, chance, cuts=cuts, report=report)
        proxy.is_calm = True
        last = await running[0].store.write(partial(space_tx.post_message, SPACE, sender=ANN, content=LAST_WORD))
        _, late = await asyncio.wait(following, timeout=ENDS_WITHIN)
        for task in late:
            task.cancel()
        report.seen["cuts"] += proxy.cuts
        report.seen["events"] += 0 if last is None else last.seq
        for follower in followers:
            follower.tell(report, last=0 if last is None else last.seq)
    return report


class Follower:
    """What one of them was told."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._seqs: list[int] = []
        self._appended: dict[str, str] = {}
        """By stream, its pieces one behind the other."""
        self._faults: list[str] = []
        self._pieces = 0

    async def follow(self, client: Client) -> None:
        while True:
            # The first connection of an iteration has to come about; it may be cut before that.
            with suppress(GatewayUnreachable):
                async for event in client.spaces.follow(SPACE, after=self._seqs[-1] if self._seqs else 0):
                    self._take(event)
                    if event.message is not None and event.message.content == LAST_WORD:
                        return

    def tell(self, report: Report, *, last: int) -> None:
        report.seen["pieces"] += self._pieces
        wanted = list(range(1, last + 1))
        report.expect(self._seqs == wanted, f"follower {self._number} got {_difference(self._seqs, wanted)}")
        report.violations += [f"follower {self._number}: {fault}" for fault in self._faults]

    def _take(self, event: SpaceEvent) -> None:
        if event.seq is not None:
            self._seqs.append(event.seq)
        if event.stream_id is None:
            return
        if event.offset is not None:
            self._take_piece(event, event.stream_id)
        elif event.type == "space.message" and event.message is not None and event.message.call is None:
            self._check_prefix(event.stream_id, event.message.content)
        elif event.type == "tool.done":
            self._check_prefix(event.stream_id, str(event.result))

    def _take_piece(self, event: SpaceEvent, stream: str) -> None:
        self._pieces += 1
        self._appended[stream] = self._appended.get(stream, "")[: event.offset] + event.delta
        if self._appended[stream] != event.text:
            self._faults.append(f"{stream}: pieces come to {self._appended[stream]!r}, the text is {event.text!r}")

    def _check_prefix(self, stream: str, whole: str) -> None:
        """Pieces may be missed while away; those that came are the beginning of what it became."""
        text = self._appended.pop(stream, "")
        if not whole.startswith(text):
            self._faults.append(f"{stream} was {text!r} and became {whole!r}")


class Proxy:
    """Passes connections on, and drops them after a while."""

    def __init__(self, ports: list[int], chance: random.Random) -> None:
        self.cuts = 0
        self.is_calm = False
        self.port = 0
        self._ports = ports
        self._chance = chance

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._chance.choice(self._ports))
        passing = {asyncio.create_task(_pass_on(reader, back)), asyncio.create_task(_pass_on(there, writer))}
        try:
            wait = None if self.is_calm else self._chance.uniform(*CUT_AFTER)
            done, _ = await asyncio.wait(passing, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            if not done and not self.is_calm:
                self.cuts += 1
            elif not done:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            for end in (writer, back):
                end.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(4096):
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def _proxy(ports: list[int], chance: random.Random) -> AsyncIterator[Proxy]:
    proxy = Proxy(ports, chance)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()


async def _talk_until_cut(
    running: list[Gateway], proxy: Proxy, chance: random.Random, *, cuts: int, report: Report
) -> None:
    tell = progress_of(report, cuts)

    async def speak(number: int) -> None:
        turn = 0
        while proxy.cuts < cuts:
            tell(proxy.cuts)
            turn += 1
            gateway = chance.choice(running)
            await chance.choice((_say, _write, _call))(gateway, f"{number}-{turn}", chance)

    await asyncio.gather(*map(speak, range(SPEAKERS)))


async def _say(gateway: Gateway, name: str, chance: random.Random) -> None:
    await gateway.store.write(partial(space_tx.post_message, SPACE, sender=ANN, content=f"message {name}"))
    await asyncio.sleep(chance.random() / 50)


async def _write(gateway: Gateway, name: str, chance: random.Random) -> None:
    """A message piece by piece; now and then nothing comes of it."""
    stream, live = f"stream-{name}", gateway.spaces.live
    live.begin(SPACE, stream, kind="message", run_id="run", agent="ada", agent_name="Ada")
    text = await _pieces(gateway, stream, [chance.choice(_WORDS) for _ in range(chance.randint(1, 80))], chance)
    fails = chance.random() < 0.1
    live.end(stream, failed=fails)
    if not fails:
        sender = Sender("ada", "Ada", "agent")
        await gateway.store.write(partial(space_tx.post_message, SPACE, sender=sender, content=text, stream_id=stream))


async def _call(gateway: Gateway, name: str, chance: random.Random) -> None:
    """A visible call whose arguments come piece by piece; they are its result, to be compared."""
    stream, live = f"call-{name}", gateway.spaces.live
    names = {"streamId": stream, "runId": "run", "agentEntityId": "ada", "toolName": "chart"}
    await gateway.store.write(partial(space_tx.add_event, SPACE, "tool.started", names))
    live.begin(SPACE, stream, kind="tool", run_id="run", agent="ada", agent_name="Ada", tool="chart")
    pieces = ['{"rows": [', *(f"{n}, " for n in range(chance.randint(1, 60))), "0]}"]
    text = await _pieces(gateway, stream, pieces, chance)
    live.end(stream)
    await gateway.store.write(partial(space_tx.add_event, SPACE, "tool.done", names | {"result": text}))


async def _pieces(gateway: Gateway, stream: str, pieces: list[str], chance: random.Random) -> str:
    for piece in pieces:
        gateway.spaces.live.append(stream, piece)
        await asyncio.sleep(chance.random() / 100)
    return "".join(pieces)


def _give_key(folder: Path, gateways: int) -> None:
    """The same key for all, so that a connection may end up at any of them."""
    for number in range(gateways):
        data = folder / f"data{number}"
        data.mkdir(parents=True)
        (data / "admin.key").write_text(KEY, encoding="utf-8")
        (data / "admin.key").chmod(0o600)


def _difference(got: list[int], wanted: list[int]) -> str:
    missing = sorted(set(wanted) - set(got))[:10]
    twice = sorted({seq for seq in got if got.count(seq) > 1})[:10]
    ordered = "in order" if got == sorted(got) else "out of order"
    return f"{len(got)} events, {ordered}; missing {missing}, twice {twice}"
