"""Logins at a server behind a real gateway process: by the command line, and killed in the middle."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.connections.world import Place, UpstreamServer, config_of, upstream
from tests.harness.in_process import KEY
from tests.harness.process import RunningGateway, run_cli, start_gateway
from tests.requirement import requirement
from tests.waiting import eventually_async

pytestmark = pytest.mark.timeout(120)
ENVIRONMENT = {"JACKFIELD_ADMIN_KEY": KEY}


@asynccontextmanager
async def started(folder: Path, server: UpstreamServer) -> AsyncIterator[tuple[RunningGateway, Place]]:
    gateway = await asyncio.to_thread(start_gateway, folder, config_of(server), env=ENVIRONMENT)
    place = Place(None, server, gateway.url)
    try:
        yield gateway, place
    finally:
        await place.close()
        gateway.kill()


async def command(gateway: RunningGateway, person: str, *args: str) -> tuple[int, str]:
    key = KEY if person == "admin" else f"key-of-{person}"
    environment = {**gateway.environment, "JACKFIELD_KEY": key}
    environment |= {"JACKFIELD_ADMIN_KEY": KEY} if person == "admin" else {}
    done = await asyncio.to_thread(run_cli, *args, cwd=gateway.folder, env=environment)
    return done.returncode, done.stdout + done.stderr


def links_in(folder: Path) -> int:
    with closing(sqlite3.connect(folder / ".jackfield" / "jackfield.db")) as database:
        return int(database.execute("SELECT count(*) FROM login_flows").fetchone()[0])


@requirement("ID-login-cli")
async def test_the_command_line_logs_in_lists_and_removes(tmp_path: Path) -> None:
    async with upstream() as server, started(tmp_path, server) as (gateway, place):
        code, said = await command(gateway, "ann", "login", "far", "--no-browser", "--no-wait", "--json")
        assert code == 0, said
        login = asyncio.create_task(command(gateway, "ann", "login", "far", "--no-browser"))
        await eventually_async(lambda: links_in(tmp_path) == 2)
        assert (await place.log_in("ann", json.loads(said)["login_url"])).status_code == 200
        code, said = await login
        assert code == 0, said
        assert said.startswith("Open this link to log in at 'far':")
        assert said.endswith("Logged in at 'far' (read).\n")
        code, said = await command(gateway, "ann", "connections")
        assert said.split()[5:9] == ["far", "ann", "connected", "read"], said
        code, said = await command(gateway, "admin", "vault", "rotate")
        assert (code, said.split()[:3]) == (0, ["Sealed", "3", "secrets"]), said
        code, said = await command(gateway, "admin", "vault")
        assert "vault.key in the data folder" in said
        code, said = await command(gateway, "admin", "doctor", "--json")
        vault = next(one for one in json.loads(said)["findings"] if one["subject"] == "vault")
        assert (vault["level"], vault["says"]) == ("ok", "3 secrets, AES-256-GCM, key in a file")
        await place.listed()
        assert (await place.call("ann")).json()["result"] == "ann"
        code, said = await command(gateway, "ann", "connections", "remove", "far")
        assert (code, said) == (0, "Logged out of 'far'.\n")
        code, said = await command(gateway, "ann", "login", "nowhere")
        assert code != 0
        assert "no source 'nowhere' that has logins" in said


@requirement("ID-flow-crash")
async def test_kill_9_in_the_middle_of_a_login_leaves_it_to_be_made(tmp_path: Path) -> None:
    async with upstream() as server:
        async with started(tmp_path, server) as (gateway, place):
            await place.log_in("bob")
            await place.listed()
            call = (await place.call("ann")).json()
            assert call["status"] == "pending_login"
            back = await place.callback(call["login_url"], "ann")
            server.may_answer.clear()
            server.given.clear()
            bringing = asyncio.create_task((await place.browser("ann")).get(back))
            await server.given.wait()  # the code is used up, and nobody has the tokens
            gateway.kill()
            server.may_answer.set()
            with pytest.raises(httpx2.TransportError):
                await bringing
        async with started(tmp_path, server) as (_, place):
            assert (await place.connections("ann"))["far", "ann"] == "login_needed"
            assert (await place.log_in("ann", call["login_url"])).status_code == 200
            record = await place.result("ann", call["call_id"])
            assert (record["status"], record["result"]) == ("completed", "ann")
            assert server.calls == {"ann": 1}


@requirement("ID-refresh-crash")
async def test_kill_9_in_the_middle_of_a_refresh_makes_the_next_call_wait_for_a_login(tmp_path: Path) -> None:
    async with upstream() as server:
        async with started(tmp_path, server) as (gateway, place):
            await place.log_in("ann")
            await place.listed()
            server.expire()
            server.may_answer.clear()
            server.given.clear()
            calling = asyncio.create_task(place.call("ann"))
            await server.given.wait()  # the old refresh token is used up, and nobody has the new one
            gateway.kill()
            server.may_answer.set()
            with pytest.raises(httpx2.TransportError):
                await calling
        async with started(tmp_path, server) as (_, place):
            call: dict[str, Any] = (await place.call("ann")).json()
            assert call["status"] == "pending_login", call
            assert (await place.log_in("ann", call["login_url"])).status_code == 200
            assert (await place.result("ann", call["call_id"]))["result"] == "ann"
            assert server.calls == {"ann": 1}


async def test_a_gateway_that_is_stopped_keeps_its_logins(tmp_path: Path) -> None:
    async with upstream() as server:
        async with started(tmp_path, server) as (gateway, place):
            await place.log_in("ann")
            assert await asyncio.to_thread(gateway.stop) == 0
        async with started(tmp_path, server) as (_, place):
            await place.listed()
            assert (await place.call("ann")).json()["result"] == "ann"
            assert server.refreshes == 0
            await eventually_async(lambda: server.calls == {"ann": 1})
