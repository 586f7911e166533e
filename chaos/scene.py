"""Everything that takes part in a storm, and how each fault begins and ends."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from chaos.logins import ENVIRONMENT, Logins
from chaos.plan import KINDS, Fault
from chaos.processes import Program, StormGateway, StormServer, words_of
from chaos.project import Ports, project
from chaos.stores import SharedPostgres, SqliteFile
from stress.processes import Project
from tests.harness.process import free_port

CLOCKS = (-86_400, -3_600, -45, -5, 5, 45, 3_600, 86_400)
"""Seconds by which a gateway's clock is wrong."""
ALWAYS = frozenset(
    {
        "gateway killed",
        "gateway restarted",
        "gateway frozen",
        "worker killed",
        "worker frozen",
        "MCP server killed",
        "MCP server frozen",
        "stdio server killed",
        "tool server killed",
        "tool server frozen",
        "caller killed",
        "caller frozen",
        "clients hung up",
    }
)
PROGRAMS_END_WITHIN = 15.0


class Scene:
    """Gateways, the servers and programs around them, and their store."""

    def __init__(
        self, folder: Path, store: SqliteFile | SharedPostgres, *, gateways: int, workers: int, logins: Logins | None
    ) -> None:
        self.store = store
        self.logins = logins
        self._at_work: set[tuple[str, int]] = set()
        """Whom something is done to now; starting a gateway may take longer than the plan thinks."""
        self.starts, self.told = folder / "starts", folder / "told"
        self._stdio_note = folder / "stdio.pid"
        self.servers = [StormServer("modern", self.starts), StormServer("legacy", self.starts)]
        served = project(
            self.starts,
            Ports(modern=self.servers[0].port, legacy=self.servers[1].port),
            stdio_note=self._stdio_note,
        )
        ports = [free_port() for _ in range(gateways)]
        if logins is not None:
            config = served.config + logins.config(f"http://127.0.0.1:{ports[0]}")
            served = Project(config, served.files, {**served.env, **ENVIRONMENT})
        self.clocks = [store.preload.clock(f"clock{number}") for number in range(gateways)]
        self.gateways = [
            StormGateway(
                folder / f"gw{number}",
                store_url=store.url,
                starts=self.starts,
                project=served,
                environment=store.preload.environment(clock),
                port=ports[number],
                workers=workers,
            )
            for number, clock in enumerate(self.clocks)
        ]
        self.tool_servers = [
            Program("chaos.tool_server", at.url, str(self.starts), f"slot-{number}", log=folder / f"server{number}.log")
            for number, at in enumerate((self.gateways * 2)[:2])
        ]
        self.callers = [
            Program(
                "chaos.caller",
                at.url,
                str(self.starts),
                f"caller{number}",
                str(self.told),
                log=folder / f"caller{number}.log",
            )
            for number, at in enumerate((self.gateways * 2)[:2])
        ]

    @classmethod
    @asynccontextmanager
    async def of(
        cls, folder: Path, store: SqliteFile | SharedPostgres, *, gateways: int, workers: int, has_logins: bool
    ) -> "AsyncIterator[Scene]":
        """All of it started, and gone afterwards."""
        with ExitStack() as stack:
            logins = await asyncio.to_thread(Logins, stack) if has_logins else None
            scene = cls(folder, store, gateways=gateways, workers=workers, logins=logins)
            stack.callback(scene.clear)
            for server in scene.servers:
                await asyncio.to_thread(server.start)
            await scene.gateways[0].start()  # who comes first makes the tables
            await asyncio.gather(*(gateway.start() for gateway in scene.gateways[1:]))
            for program in (*scene.tool_servers, *scene.callers):
                program.start()
            if logins is not None:
                await logins.begin(scene.gateways)
            yield scene
            if logins is not None:
                await logins.close()

    @property
    def _others(self) -> "list[StormServer | Program]":
        return [*self.servers, *self.tool_servers, *self.callers]

    @property
    def counts(self) -> dict[str, int]:
        return {
            "gateway": len(self.gateways),
            "clock": len(self.gateways),
            "worker": len(self.gateways),
            "upstream": len(self.servers),
            "stdio": 1,
            "tool server": len(self.tool_servers),
            "caller": len(self.callers),
            "clients": 1,
            "store": 1,
            "logins": 1,
        }

    @property
    def can(self) -> frozenset[str]:
        """Everything that can be done here."""
        more = set()
        if isinstance(self.store, SharedPostgres):
            more.add("gateway frozen past its lease")
        if self.gateways[0].workers > 1:
            more.add("gateway process killed")
        if self.store.preload.can:
            more.add("clock skewed")
        if self.logins is not None:
            more.add("access tokens ended")
        return ALWAYS | more | self.store.can

    async def act(self, fault: Fault) -> bool:
        """Do it, and see that it is over. False: something is still done to the same one."""
        who = (KINDS[fault.what].who, fault.number)
        if who in self._at_work:
            return False
        self._at_work.add(who)
        try:
            await self._begin(fault)
            await asyncio.sleep(fault.lasts)
            await self._end(fault)
        finally:
            self._at_work.discard(who)
        return True

    async def _begin(self, fault: Fault) -> None:
        number = fault.number
        match KINDS[fault.what].who:
            case "gateway":
                await self._begin_with_gateway(fault, self.gateways[number])
            case "clock":
                self.clocks[number].set(CLOCKS[int(fault.strength * len(CLOCKS))])
            case "worker":
                self._signal_worker(fault, signal.SIGKILL if fault.what == "worker killed" else signal.SIGSTOP)
            case "upstream":
                _begin_with(self.servers[number], fault)
            case "stdio":
                self._kill_stdio_server()
            case "tool server":
                _begin_with(self.tool_servers[number], fault)
            case "caller":
                _begin_with(self.callers[number], fault)
            case "logins":
                assert self.logins is not None
                await asyncio.to_thread(self.logins.expire)
            case "store":
                await self.store.begin(fault.what, fault.strength)

    async def _end(self, fault: Fault) -> None:
        """It is over, and whoever looks after the thing starts it again."""
        number = fault.number
        match KINDS[fault.what].who:
            case "gateway":
                gateway = self.gateways[number]
                gateway.thaw()
                if not gateway.is_running:
                    await gateway.start()
            case "clock":
                self.clocks[number].set(0)
            case "worker":
                self._signal_worker(fault, signal.SIGCONT)
            case "upstream":
                await _end_with(self.servers[number])
            case "tool server":
                await _end_with(self.tool_servers[number])
            case "caller":
                await _end_with(self.callers[number])
            case "store":
                await self.store.end(fault.what)

    async def heal(self) -> None:
        """Nothing is broken any more, and everything runs."""
        await self.store.heal()
        for clock in self.clocks:
            clock.set(0)
        for gateway in self.gateways:
            gateway.thaw()
            for pid in gateway.tool_processes:
                _signal(pid, signal.SIGCONT)
            if not gateway.is_running:
                await gateway.start()
        for one in self._others:
            await _end_with(one)

    def end_programs(self) -> bool:
        """Ask tool servers and callers to end. False: one had to be killed."""
        ended = [program.end(within=PROGRAMS_END_WITHIN) for program in (*self.callers, *self.tool_servers)]
        return all(ended)

    def clear(self) -> None:
        """Nothing of it is left, whatever went wrong."""
        for gateway in self.gateways:
            gateway.thaw()
            gateway.stop()
        for one in self._others:
            one.thaw()
            one.kill()

    async def _begin_with_gateway(self, fault: Fault, gateway: StormGateway) -> None:
        match fault.what:
            case "gateway killed":
                await gateway.kill()
            case "gateway restarted":
                await asyncio.to_thread(gateway.end)
            case "gateway process killed":
                serving = gateway.serving
                _signal(serving[int(fault.strength * len(serving))], signal.SIGKILL)
            case _:
                gateway.freeze()

    def _kill_stdio_server(self) -> None:
        """The one that said last that it is the one. By now its number may be another process's."""
        with suppress(OSError, ValueError):
            pid = int(self._stdio_note.read_text(encoding="utf-8"))
            if str(self._stdio_note) in words_of(pid):
                _signal(pid, signal.SIGKILL)

    def _signal_worker(self, fault: Fault, what: signal.Signals) -> None:
        found = self.gateways[fault.number].tool_processes
        for pid in found if what is signal.SIGCONT else random.Random(fault.strength).sample(found, min(1, len(found))):
            _signal(pid, what)


def _signal(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, what)


def _begin_with(one: StormServer | Program, fault: Fault) -> None:
    one.kill() if fault.what.endswith("killed") else one.freeze()


async def _end_with(one: StormServer | Program) -> None:
    one.thaw()
    await asyncio.to_thread(one.start)
