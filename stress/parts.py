"""The parts of a stress run: on SQLite with one gateway, and those about the store on PostgreSQL with two as well."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from stress.chaos import chaos
from stress.counts import Counts
from stress.cycles import kill_in_cycles
from stress.doubles import submit_twice
from stress.floods import flood
from stress.frames import watch_frames
from stress.kills import kill_under_load
from stress.logins import expire_under_load, interleave, kill_with_logins
from stress.notifications import kill_while_notifying
from stress.programs import kill_in_programs
from stress.race import race_at_the_deadline
from stress.relay import answer_in_any_order
from stress.reloads import reload_under_load
from stress.report import Report
from stress.responses import kill_in_responses
from stress.source_changes import change_sources_under_load
from stress.stores import a_folder, a_postgres
from stress.streams import cut_streams
from stress.tasks import kill_with_tasks
from stress.upstreams import restart_upstreams


class Part(Struct, frozen=True, kw_only=True):
    """One of them, and how much of it."""

    name: str
    act: Callable[..., Coroutine[Any, Any, Report]]
    counts: dict[str, int]
    shared: bool
    """On PostgreSQL, with two gateways."""

    def run(self, seed: int) -> Report:
        """All of it, on a database of its own."""
        with _a_place(shared=self.shared) as (url, folder):
            gateways = 2 if self.shared else 1
            return asyncio.run(self.act(url, folder, seed=seed, gateways=gateways, **self.counts))


def parts(counts: Counts) -> dict[str, Part]:
    notified = {"calls": counts.notified, "targets": counts.targets}
    alone = (
        Part(name="race", act=race_at_the_deadline, counts={"trials": counts.races}, shared=False),
        Part(name="doubles", act=submit_twice, counts={"pairs": counts.doubles}, shared=False),
        Part(name="kills", act=kill_under_load, counts={"kills": counts.kills}, shared=False),
        Part(name="chaos", act=chaos, counts={"calls": counts.chaos}, shared=False),
        Part(name="relay", act=answer_in_any_order, counts={"rounds": counts.relays}, shared=False),
        Part(name="upstreams", act=restart_upstreams, counts={"kills": counts.upstreams}, shared=False),
        Part(name="cycles", act=kill_in_cycles, counts={"kills": counts.cycles}, shared=False),
        Part(name="programs", act=kill_in_programs, counts={"kills": counts.programs}, shared=False),
        Part(name="responses", act=kill_in_responses, counts={"kills": counts.responses}, shared=False),
        Part(name="tasks", act=kill_with_tasks, counts={"tasks": counts.tasks}, shared=False),
        Part(name="floods", act=flood, counts={"refusals": counts.refusals}, shared=False),
        Part(name="streams", act=cut_streams, counts={"cuts": counts.cuts}, shared=False),
        Part(name="console", act=watch_frames, counts={"seconds": counts.watched}, shared=False),
        Part(name="login-kills", act=kill_with_logins, counts={"kills": counts.login_kills}, shared=False),
        Part(
            name="notifications",
            act=kill_while_notifying,
            counts=notified | {"kills": counts.notify_kills},
            shared=False,
        ),
    )
    shared = (
        Part(name="floods-shared", act=flood, counts={"refusals": counts.refusals}, shared=True),
        Part(name="race-shared", act=race_at_the_deadline, counts={"trials": counts.shared_races}, shared=True),
        Part(name="doubles-shared", act=submit_twice, counts={"pairs": counts.doubles}, shared=True),
        Part(name="cycles-shared", act=kill_in_cycles, counts={"kills": counts.cycles}, shared=True),
        Part(name="programs-shared", act=kill_in_programs, counts={"kills": counts.programs}, shared=True),
        Part(name="responses-shared", act=kill_in_responses, counts={"kills": counts.responses}, shared=True),
        Part(name="tasks-shared", act=kill_with_tasks, counts={"tasks": counts.tasks}, shared=True),
        Part(name="streams-shared", act=cut_streams, counts={"cuts": counts.cuts}, shared=True),
        Part(name="kills-shared", act=kill_under_load, counts={"kills": counts.shared_kills}, shared=True),
        Part(name="logins", act=interleave, counts={"calls": counts.logins}, shared=True),
        Part(name="expiry", act=expire_under_load, counts={"rounds": counts.expiries}, shared=True),
        Part(name="reloads", act=reload_under_load, counts={"reloads": counts.reloads}, shared=True),
        Part(
            name="source-changes",
            act=change_sources_under_load,
            counts={"changes": counts.source_changes},
            shared=True,
        ),
        Part(name="login-kills-shared", act=kill_with_logins, counts={"kills": counts.login_kills}, shared=True),
        Part(
            name="notifications-shared",
            act=kill_while_notifying,
            counts=notified | {"kills": counts.shared_notify_kills},
            shared=True,
        ),
    )
    return {part.name: part for part in (*alone, *shared)}


@contextmanager
def _a_place(*, shared: bool) -> Iterator[tuple[str, Path]]:
    """The url of a database, and a folder."""
    with a_folder() as folder:
        if shared:
            with a_postgres() as url:
                yield url, folder
        else:
            yield f"sqlite:///{folder / 'stress.db'}", folder
