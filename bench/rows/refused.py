"""A refused call beside a completed one: every attempt is on record, and that must not be what a flood costs most."""

from functools import partial
from itertools import count

from bench.budget import Bench
from bench.figures import MICROSECONDS, RATE, Bar, Figure, Line, take_turns
from bench.inprocess import calling, cost, gateway_here, runner
from bench.load import Job
from bench.processes import Server, running_gateway, running_load
from bench.subjects import echo_request, http_request, write_echo_project
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.errors import ToolNotFound
from jackfield.model.principal import Principal

NAMES = 2_000
COMPLETED = "the echo tool, completed"


def measure(bench: Bench) -> list[Line]:
    """Over HTTP the same refusal and invented names; in process refusals that each have a record of their own."""
    return [*_over_http(bench), _each_recorded(bench)]


def _over_http(bench: Bench) -> list[Line]:
    budget, folder = bench.budget, write_echo_project(bench.folder / "refused")
    with running_gateway(folder, tools=1) as gateway, running_load() as load:
        same = _job(bench, gateway, [_unknown("nothing")])
        invented = _job(bench, gateway, [_unknown(f"invented_{number}") for number in range(NAMES)])
        completed = _job(bench, gateway, [echo_request()])
        sides = take_turns(
            budget.rounds,
            partial(load.rate, gateway, same, expect=404),
            partial(load.rate, gateway, invented, expect=404),
            partial(load.rate, gateway, completed),
        )
    named = (("the same call refused", sides[0]), ("calls of invented names refused", sides[1]))
    return [
        Line(
            says=f"{says}, over HTTP, {budget.connections} at once, on record",
            ours=Figure(unit=RATE, samples=samples),
            reference=Figure(unit=RATE, samples=sides[2]),
            reference_is=COMPLETED,
            bar=Bar(limit=1.0, at_least=True),
        )
        for says, samples in named
    ]


def _each_recorded(bench: Bench) -> Line:
    budget, folder = bench.budget, write_echo_project(bench.folder / "refused-each")
    with runner() as loop, gateway_here(loop, folder, store="sqlite:///refused.db") as gateway:
        measured = partial(cost, at_once=budget.connections, seconds=budget.seconds / 2)
        refusing = _Refusing(gateway.pipeline)
        ours, reference = take_turns(
            budget.rounds,
            lambda: loop.run(measured(refusing.refuse)),
            lambda: loop.run(measured(calling(gateway.pipeline))),
        )
    return Line(
        says="a refused call in process, SQLite, the first of its minute: a record and an audit entry",
        ours=Figure(unit=MICROSECONDS, samples=ours),
        reference=Figure(unit=MICROSECONDS, samples=reference),
        reference_is=COMPLETED,
        note="a key can make 100 of these a minute; whatever it is refused beyond them is counted in memory",
    )


class _Refusing:
    """Every call is somebody else's, so that each refusal is the first of its minute."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._numbers = count()

    async def refuse(self) -> None:
        principal = Principal(name=f"key-{next(self._numbers)}", scopes=frozenset({"call"}))
        try:
            await self._pipeline.call(CallRequest(tool="nothing", arguments={}, principal=principal))
        except ToolNotFound:
            return


def _unknown(tool: str) -> str:
    return http_request("POST", f"/api/v1/tools/{tool}/execute", body=b'{"arguments":{}}')


def _job(bench: Bench, gateway: Server, requests: list[str]) -> Job:
    budget = bench.budget
    return Job(port=gateway.port, requests=requests, connections=budget.connections, seconds=budget.seconds)
