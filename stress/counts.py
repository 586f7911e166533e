"""How much of everything: all of it, or just enough to see that it works."""

from msgspec import Struct


class Counts(Struct, frozen=True, kw_only=True):
    """What one run of the parts does."""

    races: int
    """Trials of a result against a deadline, on SQLite."""
    shared_races: int
    """The same on PostgreSQL, with two gateways."""
    doubles: int
    """Pairs of results submitted at once, on each store."""
    kills: int
    """kill -9 of the one gateway on SQLite."""
    shared_kills: int
    """kill -9 of one of two gateways on PostgreSQL."""
    chaos: int
    """Calls of hostile tools."""
    upstreams: int
    """kill -9 of MCP servers behind one gateway."""
    relays: int
    """Rounds of fifty requests to a caller, answered in any order."""
    cycles: int
    """kill -9 of a gateway whose agents are between inbox and commit, on each store."""
    programs: int
    """kill -9 of a gateway in the middle of programs that call tools, on each store."""
    responses: int
    """kill -9 of a gateway in the middle of responses that call tools, wait and are resumed, on each store."""
    tasks: int
    """MCP tasks that wait for approval while gateways are killed, on each store."""
    cuts: int
    """Connections dropped under those who follow a busy space, on each store."""
    logins: int
    """Calls by two people with logins of their own, over two gateways on PostgreSQL."""
    expiries: int
    """Two hundred calls at once after every access token has ended, on PostgreSQL."""
    login_kills: int
    """kill -9 of a gateway during a login or a refresh, on each store."""
    notified: int
    """Calls that every target is told of, on each store."""
    targets: int
    """Targets of notifications."""
    notify_kills: int
    """kill -9 of the one gateway that delivers notifications, on SQLite."""
    shared_notify_kills: int
    """kill -9 of one of two on PostgreSQL, where a dead one's targets wait until its lease is over."""
    refusals: int
    """The same one over and over, over HTTP, on each store."""
    reloads: int
    """Of the config, at two gateways under the load of 64 callers."""
    source_changes: int
    """Sources and secrets made, changed, restarted and removed at two gateways, under the same load."""
    watched: int
    """Seconds that each page of the console is looked at while 50 calls a second arrive."""


FULL = Counts(
    races=10_000,
    shared_races=2_000,
    doubles=1_000,
    kills=200,
    shared_kills=200,
    chaos=5_000,
    upstreams=50,
    relays=1_000,
    cycles=200,
    programs=200,
    responses=200,
    tasks=200,
    cuts=500,
    logins=1_000,
    expiries=5,
    login_kills=50,
    notified=400,
    targets=25,
    notify_kills=50,
    shared_notify_kills=50,
    refusals=100_000,
    reloads=1_000,
    source_changes=1_000,
    watched=15,
)
SMALL = Counts(
    races=100,
    shared_races=30,
    doubles=20,
    kills=2,
    shared_kills=2,
    chaos=150,
    upstreams=3,
    relays=5,
    cycles=1,
    programs=10,
    responses=10,
    tasks=10,
    cuts=12,
    logins=80,
    expiries=1,
    login_kills=1,
    notified=12,
    targets=4,
    notify_kills=1,
    shared_notify_kills=1,
    refusals=1_000,
    reloads=10,
    source_changes=20,
    watched=1,
)
