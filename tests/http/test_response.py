"""What counts when it has arrived is sent in pieces, and not past a client that is gone."""

import asyncio
from typing import Any

import pytest

from jackfield.http.response import PIECE, send_whole


class Line:
    """A server's end of a connection; its client hangs up after so many pieces."""

    def __init__(self, *, hangs_up_after: int | None = None) -> None:
        self.sent: list[bytes] = []
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hangs_up_after = hangs_up_after

    async def send(self, message: Any) -> None:
        assert message["more_body"]
        self.sent.append(message["body"])
        if len(self.sent) == self._hangs_up_after:
            self.gone.set_result(None)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 5 * PIECE, 5 * PIECE + 17])
async def test_a_body_arrives_whole_in_pieces_that_a_server_waits_after(size: int) -> None:
    line, body = Line(), bytes(range(256)) * (size // 256 + 1)
    assert await send_whole(line.send, body[:size], gone=line.gone)
    assert b"".join(line.sent) == body[:size]
    assert all(len(piece) <= PIECE for piece in line.sent)
    assert (line.sent[-1:] == [b""]) is (size > PIECE), "a large body ends when the server has let go of it"


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_nothing_is_sent_past_a_client_that_hung_up(after: int) -> None:
    line = Line(hangs_up_after=after)
    assert not await send_whole(line.send, b"x" * (2 * PIECE), gone=line.gone)
    assert len(line.sent) == after
