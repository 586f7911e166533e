"""What a sandboxed program cannot do, tried by real programs in real sandboxes."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.waiting import eventually_async
from tests.workers.processes import running
from tests.workers.sandbox.inside import KINDS, Booth, settings_of

pytestmark = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on the loopback address, and what it was told."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


CALL_OUT = """
def reach(host, port):
    with socket.create_connection((host, port), timeout=5) as line:
        line.sendall(b"hello")
    return "reached"
print(json.dumps([attempt(lambda: reach("127.0.0.1", {port})), attempt(lambda: reach("192.0.2.1", 80))]))
"""


async def test_there_is_no_network(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    async with listening() as (port, heard):
        ended = await booth.run(settings_of(kind), CALL_OUT.format(port=port))
    assert ended.said == ["ConnectionRefusedError", "OSError"]
    assert heard == []


async def test_there_is_one_where_the_operator_says_so(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    async with listening() as (port, heard):
        code = CALL_OUT.format(port=port).replace(', attempt(lambda: reach("192.0.2.1", 80))', "")
        ended = await booth.run(settings_of(kind, network=True), code)
        await eventually_async(lambda: bool(heard), what=lambda: "not heard")
    assert ended.said == ["reached"]
    assert heard == [b"hello"]


async def test_it_may_speak_with_itself_over_the_loopback_address(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    ended = await booth.run(
        settings_of(kind),
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).sendall(b'x')\n"
        "print(json.dumps(server.accept()[0].recv(1).decode()))",
    )
    assert ended.said == "x"


async def test_only_what_is_shown_can_be_read(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    secret, shown, linked = booth.folder / "secret.txt", booth.folder / "shown", booth.folder / "other"
    for path in (shown, shown / "data" / "deep", linked):
        path.mkdir(parents=True)
    for path in (secret, shown / "plain.txt", shown / "data" / "key", shown / "jackfield.toml", linked / "file"):
        path.write_text(path.name)
    (shown / "way").symlink_to(secret)
    (booth.folder / "alias").symlink_to(linked)
    paths = [
        secret,
        shown / "way",
        shown / "data" / "key",
        "/etc/shadow",
        Path.home() / ".ssh",
        shown / "data" / "deep",
    ]
    seen = [shown / "plain.txt", booth.folder / "alias" / "file"]
    ended = await booth.run(
        settings_of(kind, readable=("alias",)),
        f"paths, seen = {[str(path) for path in paths]!r}, {[str(path) for path in seen]!r}\n"
        "print(json.dumps([[os.path.exists(path) for path in paths], [open(path).read() for path in seen],\n"
        f"    open({str(shown / 'jackfield.toml')!r}).read(), os.listdir({str(booth.folder)!r}), os.getcwd()]))",
        folder=shown,
    )
    there, texts, config, beside, cwd = ended.said
    assert there == [False] * 6
    assert texts == ["plain.txt", "file"]
    assert (config, sorted(beside), cwd) == ("", ["alias", "other", "shown"], str(shown))


async def test_only_its_own_folders_and_those_that_are_named_can_be_written(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    shown, out = booth.folder / "shown", booth.folder / "shown" / "out"
    out.mkdir(parents=True)
    ended = await booth.run(
        settings_of(kind, writable=("shown/out",)),
        "def write(path):\n    with open(path, 'w') as file:\n        file.write('x')\n    return 'written'\n"
        f"places = ['/', '/usr', '/etc', '/dev', {str(shown)!r}, {str(out)!r}, '/tmp', os.environ['HOME']]\n"
        "print(json.dumps([attempt(lambda: write(place.rstrip('/') + '/jackfield-wall-test')) for place in places]))",
        folder=shown,
    )
    assert ended.said == ["OSError"] * 5 + ["written"] * 3
    assert [path.name for path in shown.rglob("*") if path.is_file()] == ["jackfield-wall-test"]
    assert (out / "jackfield-wall-test").read_text() == "x"
    assert "jackfield-wall-test" not in os.listdir("/tmp")  # noqa: PTH208 - a look, in passing


async def test_other_processes_are_neither_seen_nor_signalled(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    ended = await booth.run(
        settings_of(kind),
        "pids = [int(name) for name in os.listdir('/proc') if name.isdecimal()]\n"
        f"print(json.dumps([len(pids), attempt(lambda: os.kill({os.getpid()}, 9)), attempt(lambda: os.kill(1, 9)),\n"
        "    attempt(lambda: os.kill(-1, 0))]))",
    )
    count, ours, first, all_others = ended.said
    assert count == 2
    assert ours == "ProcessLookupError"
    assert first is None, "the first process in there takes no SIGKILL from those it holds"
    assert all_others in (None, "ProcessLookupError")
    assert running(os.getpid())


async def test_it_has_no_rights_and_gets_none(kind: str, booth: Booth) -> None:
    """The machine's own settings are looked at, not written: a wall with a hole would let this test change them."""
    await booth.need(kind)
    ended = await booth.run(
        settings_of(kind),
        "import ctypes\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "status = dict(line.split(':\\t', 1) for line in lines if ':\\t' in line)\n"
        "places = ['/proc/sys', '/proc/irq', '/proc/bus', '/proc/fs']\n"
        "print(json.dumps([status['CapEff'], status['CapBnd'], status['NoNewPrivs'], os.getuid() != 0,\n"
        "    [place for place in places if os.path.exists(place) and not os.statvfs(place).f_flag & os.ST_RDONLY],\n"
        "    ctypes.CDLL(None).unshare(0x10000000),\n"
        "    [fd for fd in range(3, 100) if attempt(lambda: os.fstat(fd)) != 'OSError']]))",
    )
    none = "0000000000000000"
    assert ended.said == [none, none, "1", True, [], -1, []]


async def test_the_machines_users_and_keys_are_not_seen(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    ended = await booth.run(
        settings_of(kind),
        "names = ['kcore', 'keys', 'timer_list', 'sched_debug']\n"
        "print(json.dumps([open('/etc/passwd').read().split(':')[0], open('/etc/passwd').read().count('\\n'),\n"
        "    open('/etc/group').read().count('\\n'),\n"
        "    [n for n in names if os.path.exists(f'/proc/{n}') and not os.path.samefile(f'/proc/{n}', '/dev/null')]]))",
    )
    assert ended.said == ["user", 1, 1, []]


async def test_a_given_socket_is_there_and_leads_out(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    path = booth.folder / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o600)
        server.listen()
        server.settimeout(10)
        ended = await booth.run(
            settings_of(kind),
            "line = socket.socket(socket.AF_UNIX)\nline.connect(os.environ['JACKFIELD_SOCKET'])\n"
            "line.sendall(b'out of the box')\nprint(json.dumps(os.environ['JACKFIELD_SOCKET']))",
            sockets={"JACKFIELD_SOCKET": path},
        )
        assert ended.said == "/run/jackfield/jackfield_socket"
        with server.accept()[0] as line:
            assert line.recv(100) == b"out of the box"


async def test_its_temporary_folder_has_bounds(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    ended = await booth.run(
        settings_of(kind, scratch=1_000_000),
        "def fill():\n    with open('/tmp/much', 'wb') as file:\n        file.write(bytes(2_000_000))\n"
        "try:\n    fill()\nexcept OSError as error:\n    print(json.dumps(error.strerror))",
    )
    assert ended.said == "No space left on device"
