"""The databases of a storm, and what is done to them: a SQLite file, or a PostgreSQL with a replica behind a proxy.

Both lie on small disks of their own where the harness may mount one (root): a ballast file fills them. The slow disk
and the wrong clock are `preload.c`, loaded into the processes that write and that look at the clock.
"""

import asyncio
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from chaos.processes import descendants
from chaos.proxy import Proxy
from tests.postgres import PASSWORD, PostgresServer

SOURCE = Path(__file__).with_name("preload.c")
DISK_BYTES = 400 << 20
REPLICATED = {"fsync": "on", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_level": "replica"}
REPLICA = {"hot_standby": "on", "wal_retrieve_retry_interval": "200ms"}
STARTS_WITHIN = 60.0


class Disk:
    """A small file system of its own, which can be full, and a delay of its writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def mount(self, *, size: int = DISK_BYTES, owner: int | None = None) -> bool:
        """False: this user may not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "chaos", str(self.folder)]
        is_mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        if owner is not None:
            os.chown(self.folder, owner, owner)
        return is_mounted

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)

    def fill(self) -> None:
        """To the last byte."""
        with self._ballast.open("ab") as file, suppress(OSError):
            free = os.statvfs(self.folder)
            os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize))
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Preload:
    """The library that makes writes slow and clocks wrong, in the processes that have its environment."""

    def __init__(self, folder: Path, *, is_wanted: bool) -> None:
        self._folder = folder
        self._note, self._library = folder / "slow-disk", folder / "preload.so"
        self._note.write_text("0")
        self._note.chmod(0o644)
        build = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"]
        has_gcc = is_wanted and shutil.which("gcc") is not None
        self.can = has_gcc and subprocess.run(build, check=False, capture_output=True).returncode == 0
        """Whether it could be built here."""

    def environment(self, clock: "Clock | None" = None) -> dict[str, str]:
        """Of a process whose writes may be slow, and whose clock may be wrong."""
        if not self.can:
            return {}
        found = {"LD_PRELOAD": str(self._library), "CHAOS_SLOW_DISK": str(self._note)}
        return found if clock is None else found | {"CHAOS_CLOCK": str(clock.note)}

    def slow_down(self, milliseconds: int) -> None:
        self._note.write_text(str(milliseconds))

    def clock(self, name: str) -> "Clock":
        return Clock(self._folder / name)


class Clock:
    """By how much the clock is wrong in the processes that read this note."""

    def __init__(self, note: Path) -> None:
        self.note = note
        note.write_bytes(struct.pack("q", 0))

    def set(self, seconds: int) -> None:
        with self.note.open("r+b") as file:  # in place: it is mapped into memory
            file.write(struct.pack("q", seconds))


class SqliteFile:
    """A file on a disk of its own. What writes it is the gateway."""

    def __init__(self, preload: Preload, disk: Disk, *, is_mounted: bool) -> None:
        self._file = disk.folder / "chaos.db"
        self.url = self.direct_url = f"sqlite:///{self._file}"
        self.preload = preload
        self._disk, self._is_mounted = disk, is_mounted

    @property
    def can(self) -> frozenset[str]:
        """The faults that can be had here."""
        return frozenset(
            ({"disk full"} if self._is_mounted else set()) | ({"disk slow"} if self.preload.can else set())
        )

    async def begin(self, what: str, strength: float) -> None:
        match what:
            case "disk full":
                await asyncio.to_thread(self._disk.fill)
            case "disk slow":
                self.preload.slow_down(round(20 + 280 * strength))

    async def end(self, what: str) -> None:
        match what:
            case "disk full":
                self._disk.free()
            case "disk slow":
                self.preload.slow_down(0)

    async def heal(self) -> None:
        self._disk.free()
        self.preload.slow_down(0)

    def file_bytes(self) -> int:
        """The database, of which gateways have pages in their memory."""
        return _size(self._file)

    def log_bytes(self) -> int:
        """What is committed and not yet in the database file."""
        return _size(self._file.with_name(self._file.name + "-wal"))


class SharedPostgres:
    """A primary, its synchronous replica, and the proxy that gateways know: behind it the replica can take over."""

    def __init__(self, preload: Preload) -> None:
        self.preload = preload
        self._primary = PostgresServer(**REPLICATED)
        replica = PostgresServer(**REPLICATED, **REPLICA)
        self._replica: PostgresServer | None = replica
        self._disk, self._replicas_disk = Disk(self._primary.folder / "data"), Disk(replica.folder / "data")
        self._proxy = Proxy(("127.0.0.1", self._primary.port))
        self._is_mounted = False
        self.url = ""

    @property
    def direct_url(self) -> str:
        return self._primary.url()

    @property
    def can(self) -> frozenset[str]:
        more = {"disk full"} if self._is_mounted else set()
        more |= {"disk slow"} if self.preload.can else set()
        return frozenset(
            more
            | {"database restart", "database crash", "database frozen", "database failover"}
            | {"connections terminated", "connections reset", "connections stalled"}
        )

    async def start(self) -> None:
        owner = None if os.geteuid() else 65534
        if owner is not None:
            self._is_mounted = self._disk.mount(owner=owner) and self._replicas_disk.mount(owner=owner)
        for server in (self._primary, self._replica):
            assert server is not None
            server.environment = self.preload.environment()
        await asyncio.to_thread(self._primary.start)
        await asyncio.to_thread(self._follow)
        port = await self._proxy.listen()
        self.url = f"postgresql://{self._primary.user}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/postgres"

    def _follow(self) -> None:
        """Copy the primary, start the copy as its replica, and have the primary wait for it from now on."""
        primary, replica = self._primary, self._replica
        assert replica is not None
        copy = ["--pgdata", str(replica.folder / "data"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        replica.run_program("pg_basebackup", "--dbname", primary.url(), *copy)
        replica.start()
        primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")

    async def close(self) -> None:
        await self._proxy.close()
        for server in (self._replica, self._primary):
            if server is not None:
                for pid in self._pids(server):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                await asyncio.to_thread(server.stop, at_once=True)
        self._disk.unmount()
        self._replicas_disk.unmount()
        for server in (self._replica, self._primary):
            if server is not None:
                await asyncio.to_thread(server.remove)

    async def begin(self, what: str, strength: float) -> None:
        match what:
            case "disk full":
                await asyncio.to_thread(self._disk.fill)
            case "disk slow":
                self.preload.slow_down(round(20 + 180 * strength))
            case "database restart":
                await asyncio.to_thread(self._primary.stop)
            case "database crash":
                await asyncio.to_thread(self._primary.stop, at_once=True)
            case "database frozen":
                self._signal(signal.SIGSTOP)
            case "database failover":
                await self._fail_over()
            case "connections terminated":
                with suppress(subprocess.SubprocessError):
                    await asyncio.to_thread(self._primary.run, TERMINATE)
            case "connections reset":
                self._proxy.reset()
            case "connections stalled":
                self._proxy.stall(on=True)

    async def end(self, what: str) -> None:
        match what:
            case "disk full":
                self._disk.free()
                await self.heal()
            case "disk slow":
                self.preload.slow_down(0)
            case "database restart" | "database crash":
                await self._start_again()
            case "database frozen":
                self._signal(signal.SIGCONT)
            case "connections stalled":
                self._proxy.stall(on=False)

    async def heal(self) -> None:
        """Whatever it was, it is over: the disk is free, and the server runs and answers."""
        self._disk.free()
        self.preload.slow_down(0)
        self._proxy.stall(on=False)
        self._signal(signal.SIGCONT)
        if not await asyncio.to_thread(self._primary.takes_connections):
            await self._start_again()

    async def _start_again(self) -> None:
        """As whatever looks after a server would: until it runs. A full disk may have ended it by itself."""
        until = time.monotonic() + STARTS_WITHIN
        while True:
            with suppress(subprocess.SubprocessError, OSError):
                await asyncio.to_thread(self._primary.stop, at_once=True)
            try:
                await asyncio.to_thread(self._primary.start)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.2)
            else:
                return

    async def _fail_over(self) -> None:
        """The primary dies for good, its replica is promoted, and the address leads to it."""
        replica = self._replica
        if replica is None:
            return
        dead, self._replica = self._primary, None
        await asyncio.to_thread(dead.stop, at_once=True)
        await asyncio.to_thread(replica.run, "SELECT pg_promote()")
        self._primary = replica
        self._proxy.to = ("127.0.0.1", replica.port)
        self._proxy.reset()
        self._disk.unmount()
        self._disk = self._replicas_disk
        await asyncio.to_thread(dead.remove)

    def connections(self) -> int:
        """That gateways have open."""
        return int(self._primary.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jackfield'"))

    def file_bytes(self) -> int:
        """Nothing of it is in the memory of gateways."""
        return 0

    def log_bytes(self) -> int:
        """The write-ahead log that the server keeps."""
        return sum(map(_size, (self._primary.folder / "data" / "pg_wal").glob("0*")))

    def idle_in_transaction(self) -> int:
        return int(self._primary.run(IDLE_IN_TRANSACTION))

    def _signal(self, what: signal.Signals) -> None:
        for pid in self._pids(self._primary):
            with suppress(ProcessLookupError):
                os.kill(pid, what)

    def _pids(self, server: PostgresServer) -> list[int]:
        return [] if server.pid is None else descendants(server.pid)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


IDLE_IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '5 s'
"""
TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'jackfield'
"""


@asynccontextmanager
async def a_store(kind: str, folder: Path, *, is_bare: bool = False) -> "AsyncIterator[SqliteFile | SharedPostgres]":
    """Gone when it is left, whatever state it is in."""
    preload = Preload(folder, is_wanted=not is_bare)
    async with AsyncExitStack() as stack:
        if kind == "postgres":
            shared = SharedPostgres(preload)
            stack.push_async_callback(shared.close)
            await shared.start()
            yield shared
            return
        disk = Disk(folder / "disk")
        is_mounted = disk.mount()
        stack.callback(disk.unmount)
        yield SqliteFile(preload, disk, is_mounted=is_mounted)
