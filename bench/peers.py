"""A hundred services in one process: most answer at once, some late, some never. Prints its port, then serves.

`python -m bench.peers`. Service N is at `/N`; those from `SLOW_FROM` on take longer than anybody waits. `POST /change`
has each publish one more tool from then on.
"""

import asyncio
import sys

import msgspec

PEERS = 80
SLOW_FROM = 1000
TOOLS_EACH = 10
_changes = 0


def manifest(peer: int) -> bytes:
    """The manifest of one service."""
    names = [f"tool_{peer}_{number}" for number in range(TOOLS_EACH)] + [f"new_{peer}_{n}" for n in range(_changes)]
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return msgspec.json.encode(
        {
            "protocol_version": "1.0",
            "scenario": {"name": f"peer-{peer}", "version": "1.0.0", "description": ""},
            "tools": [
                {"name": name, "description": f"The tool {name}.", "parameters": schema, "metadata": {}}
                for name in names
            ],
            "categories": [],
            "generated_at": f"2026-01-01T00:{_changes:02d}:00Z",
        }
    )


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    global _changes  # noqa: PLW0603 - one process, one world
    try:
        while line := (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0]:
            method, path, _ = line.decode().split(" ")
            first = path.split("/")[1]
            status, body = "404 Not Found", b""
            if method == "POST" and first == "change":
                _changes += 1
                status, body = "200 OK", b"{}"
            elif path.endswith("/api/v1/tools") and first.isdecimal():
                if int(first) >= SLOW_FROM:
                    await asyncio.sleep(3600)
                status, body = "200 OK", manifest(int(first))
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
