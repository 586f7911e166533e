"""Two people with logins of their own at a server behind the gateways, whose access tokens end again and again."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import httpx2

from chaos.processes import StormGateway
from stress.logins import NAMES, VAULT_KEY, LoginServer, Person, key_of, running_login_server
from stress.report import Report

ENVIRONMENT = {"JACKFIELD_VAULT_KEY": VAULT_KEY}
CONFIG = """
[server]
public_url = "{url}"

[auth.keys.ada]
key = "{ada}"

[auth.keys.bob]
key = "{bob}"

[sources.notes]
kind = "mcp"
url = "{server}/mcp"
auth = "user"
call_timeout = 5
"""
log = logging.getLogger("chaos")


class Logins:
    """The server, and the people's browsers."""

    def __init__(self, stack: ExitStack) -> None:
        self._server: LoginServer = stack.enter_context(running_login_server())
        self._people: dict[str, Person] = {}
        self._busy = dict.fromkeys(NAMES, False)

    def config(self, url: str) -> str:
        """`url`: of the gateway that browsers know."""
        return CONFIG.format(url=url, server=self._server.url, **{name: key_of(name) for name in NAMES})

    async def begin(self, gateways: Sequence[StormGateway]) -> None:
        """Everybody logs in once."""
        self._people = {name: Person(name, list(gateways)) for name in NAMES}
        for person in self._people.values():
            await person.connect()

    async def close(self) -> None:
        for person in self._people.values():
            await person.close()

    def someone(self, chance: random.Random) -> str:
        return chance.choice(NAMES)

    async def log_in(self, name: str) -> bool:
        """A call waits for it. False: it did not work this time."""
        if self._busy[name]:
            return False
        self._busy[name] = True
        try:
            await self._people[name].connect()
        except (httpx2.HTTPError, AssertionError, OSError, RuntimeError, KeyError, ValueError) as fault:
            log.info("%s could not log in: %s", name, fault)
            return False
        finally:
            self._busy[name] = False
        return True

    def expire(self) -> None:
        """No access token is good any more."""
        self._server.expire()

    async def judge(self, report: Report) -> None:
        """Each call came once, with its own person's token."""
        seen = await asyncio.to_thread(lambda: self._server.seen)
        report.seen["logins"], report.seen["logins refreshed"] = seen.logins, seen.refreshes
        for (whose, text), times in Counter(tuple(call) for call in seen.calls).items():
            report.expect(times == 1, f"{text} came {times} times to the server with logins")
            report.expect(whose in text, f"{text} came with the token of {whose}")
