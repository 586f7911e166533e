"""Streams: what is sent, when they ping, and that either side can end them."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.http import sse
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.http.streams import Streams

SCOPE = {"type": "http", "method": "GET"}


class Client:
    """Somebody who listens; `leave` hangs up."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.has_more = asyncio.Event()
        self.is_gone = asyncio.Event()
        self.complete = False

    async def receive(self) -> dict[str, Any]:
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.got.append(message["body"])
            self.complete = not message.get("more_body", False)
            self.has_more.set()

    async def hear(self, text: bytes) -> None:
        while text not in b"".join(self.got):
            self.has_more.clear()
            await asyncio.wait_for(self.has_more.wait(), 5)


class SlowClient(Client):
    """One whose network takes a moment for everything."""

    async def send(self, message: Any) -> None:
        await asyncio.sleep(0.02)
        await super().send(message)


class Talk:
    """Messages that a test gives one by one; knows whether it was closed."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[EventMessage | Comment | None] = asyncio.Queue()
        self.is_closed = False

    async def __call__(self) -> AsyncGenerator[EventMessage | Comment]:
        try:
            while (message := await self.queue.get()) is not None:
                yield message
        finally:
            self.is_closed = True


def test_an_event_is_its_lines_and_data_is_one_of_them() -> None:
    message = EventMessage(event="a.b", id="7", data={"text": "two\nlines \u2028 ü"})
    assert message.encoded().decode() == 'id: 7\nevent: a.b\ndata: {"text":"two\\nlines \u2028 ü"}\n\n'
    assert Comment("ping").encoded() == b": ping\n\n"


def test_a_result_that_came_indented_is_still_one_line() -> None:
    sent = EventMessage(data={"result": Raw(b'{\r\n  "text": "a\\nb"\n}')}, event="call.result").encoded()
    assert sent.count(b"\n") == 3
    data = sent.split(b"data: ")[1]
    assert msgspec.json.decode(data) == {"result": {"text": "a\nb"}}


async def test_a_stream_sends_what_comes_and_ends_after_the_last() -> None:
    talk, client, streams = Talk(), Client(), Streams()
    talk.queue.put_nowait(EventMessage(data=1))
    talk.queue.put_nowait(None)
    await asyncio.wait_for(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send), 5)
    assert client.got == [b"data: 1\n\n", b""]
    assert client.complete
    assert talk.is_closed
    assert not streams._open.watches


async def test_a_quiet_stream_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PING_EVERY", 0.01)
    talk, client, streams = Talk(), Client(), Streams()
    running = asyncio.create_task(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send))
    await client.hear(b": ping\n\n: ping\n\n")
    talk.queue.put_nowait(EventMessage(data="still here"))
    await client.hear(b"still here")
    talk.queue.put_nowait(None)
    await asyncio.wait_for(running, 5)


@pytest.mark.parametrize("ended_by", ["client", "server"])
async def test_either_side_ends_a_stream_and_its_source_is_let_go(ended_by: str) -> None:
    talk, client, streams = Talk(), Client(), Streams()
    running = asyncio.create_task(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send))
    talk.queue.put_nowait(EventMessage(data=1))
    await client.hear(b"data: 1")
    client.is_gone.set() if ended_by == "client" else streams.close()
    await asyncio.wait_for(running, 5)
    assert talk.is_closed
    assert client.complete
    assert not streams._open.watches


async def test_what_was_encoded_for_many_is_sent_as_it_is() -> None:
    client, streams = Client(), Streams()
    frame = b"data: for all\n\n"

    async def frames() -> AsyncGenerator[EventMessage | Comment | bytes]:
        yield frame
        yield EventMessage(data=1)

    await asyncio.wait_for(EventStream(frames(), streams=streams)(SCOPE, client.receive, client.send), 5)
    assert client.got == [frame, b"data: 1\n\n", b""]
    assert client.got[0] is frame


async def test_a_client_that_goes_while_a_message_is_noted_as_sent_does_not_stop_the_note() -> None:
    talk, client, streams = Talk(), Client(), Streams()
    noted = asyncio.Event()

    async def note() -> None:
        client.is_gone.set()
        await asyncio.sleep(0.01)
        noted.set()

    talk.queue.put_nowait(EventMessage(data=1, on_sent=note))
    await asyncio.wait_for(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send), 5)
    assert noted.is_set()
    assert talk.is_closed


async def test_who_stops_a_stream_from_outside_stops_it() -> None:
    talk, client, streams = Talk(), Client(), Streams()
    running = asyncio.create_task(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send))
    talk.queue.put_nowait(EventMessage(data=1))
    await client.hear(b"data: 1")
    client.is_gone.set()
    running.cancel()
    await asyncio.wait((running,), timeout=5)
    assert running.cancelled()
    assert talk.is_closed
    assert not streams._open.watches


async def test_no_ping_falls_into_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PING_EVERY", 0.005)
    talk, client, streams = Talk(), SlowClient(), Streams()
    running = asyncio.create_task(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send))
    await client.hear(b": ping")
    talk.queue.put_nowait(EventMessage(data="x" * 300_000))
    talk.queue.put_nowait(None)
    await asyncio.wait_for(running, 10)
    assert b'data: "%s"\n\n' % (b"x" * 300_000) in b"".join(client.got)


async def test_a_stream_opened_while_the_server_stops_ends_at_once() -> None:
    talk, client, streams = Talk(), Client(), Streams()
    streams.close()
    await asyncio.wait_for(EventStream(talk(), streams=streams)(SCOPE, client.receive, client.send), 5)
    assert client.complete


async def test_head_of_a_stream_does_not_wait() -> None:
    talk, client = Talk(), Client()
    stream = EventStream(talk(), streams=Streams())
    await asyncio.wait_for(stream({"type": "http", "method": "HEAD"}, client.receive, client.send), 5)
    assert client.got == [b""]


async def test_work_that_goes_on_without_a_listener_is_waited_for_and_then_stopped() -> None:
    streams = Streams()
    ended: list[str] = []

    async def work(name: str, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ended.append(f"{name} done")
        except asyncio.CancelledError:
            ended.append(f"{name} stopped")
            raise

    streams.keep(work("short", 0.01), name="short")
    streams.keep(work("long", 60), name="long")
    await streams.finish(within=0.5)
    assert ended == ["short done", "long stopped"]
    await streams.finish(within=0.5)
