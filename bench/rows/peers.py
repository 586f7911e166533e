"""A hundred services, ten of them dead and ten slow: the list comes from cache, and the others are current in time."""

import socket
import time
from functools import partial

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.load import Job
from bench.peers import PEERS, SLOW_FROM, TOOLS_EACH
from bench.processes import BenchError, Server, running_gateway, running_load, running_reference, running_server
from bench.subjects import http_request

PATH = "/api/v1/tools"
WITHIN_MS = 5
TTL_SECONDS = 2.0
DEAD = SLOW = 10
GRACE = 30.0


def measure(bench: Bench) -> list[Line]:
    """What listing costs beside a server with the same bytes, and how old a service's tools get."""
    budget, folder, file = bench.budget, bench.folder / "peers", bench.folder / "peers.json"
    folder.mkdir()
    with running_server("-m", "bench.peers") as peers:
        (folder / "jackfield.toml").write_text(_config(peers.port), encoding="utf-8")
        with running_gateway(folder, tools=PEERS * TOOLS_EACH) as gateway, running_load() as load:
            file.write_bytes(gateway.get(PATH).body)
            with running_reference(file) as bare:
                seconds = budget.seconds / 2
                listed, plain = take_turns(
                    budget.rounds,
                    partial(load.median_ms, gateway, _job(gateway, seconds)),
                    partial(load.median_ms, bare, _job(bare, seconds)),
                )
            fresh = tuple(_until_current(gateway, peers, changes=number + 1) for number in range(budget.rounds))
    says = f"{PEERS + DEAD + SLOW} peers, {DEAD} dead, {SLOW} slow"
    return [
        Line(
            says=f"{says}: list of {PEERS * TOOLS_EACH} tools over HTTP, p50",
            ours=Figure(unit=MILLISECONDS, samples=listed),
            reference=Figure(unit=MILLISECONDS, samples=plain),
            reference_is="bare Starlette, the same bytes",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        ),
        Line(
            says=f"{says}: until a change of all others is listed, cache_ttl {TTL_SECONDS:g} s",
            ours=Figure(unit=MILLISECONDS, samples=fresh),
            bar=Bar(limit=TTL_SECONDS * 1_000 + 500, of_ratio=False),
            note="the time to live, and half a second for eighty manifests to be read and merged",
        ),
    ]


def _config(port: int) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = probe.getsockname()[1]
    urls = {f"peer{number}": f"http://127.0.0.1:{port}/{number}" for number in range(PEERS)}
    urls |= {f"slow{number}": f"http://127.0.0.1:{port}/{SLOW_FROM + number}" for number in range(SLOW)}
    urls |= {f"dead{number}": f"http://127.0.0.1:{nobody}/{number}" for number in range(DEAD)}
    return "".join(
        f'[sources.{name}]\nkind = "manifest"\nurl = "{url}"\ncache_ttl = {TTL_SECONDS}\n' for name, url in urls.items()
    )


def _job(server: Server, seconds: float) -> Job:
    return Job(port=server.port, requests=[http_request("GET", PATH)], connections=1, seconds=seconds)


def _until_current(gateway: Server, peers: Server, *, changes: int) -> Sample:
    """From a change at every service to the list that shows all of them."""
    wanted = [f'"new_{peer}_{changes - 1}"'.encode() for peer in range(PEERS)]
    began = time.perf_counter()
    peers.post("/change", b"{}", {})
    while time.perf_counter() - began < GRACE:
        body = gateway.get(PATH).body
        if all(name in body for name in wanted):
            return Sample(value=(time.perf_counter() - began) * 1_000)
        time.sleep(0.02)
    raise BenchError(f"The changes of {PEERS} services were not listed within {GRACE:g} s.")
