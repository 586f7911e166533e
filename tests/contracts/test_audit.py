"""The audit log on every store: what is written verifies, and whatever is done to it afterwards is found."""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from jackfield.audit.api import AuditApi
from jackfield.audit.log import AuditLog
from jackfield.audit.transactions import AuditFilter, entries
from jackfield.audit.types import Entry
from jackfield.audit.verification import Verified, verify
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Script, Sql, run
from tests.requirement import requirement

Change = tuple[str, ...]


def entry(number: int) -> Entry:
    return Entry(actor="anna", action="key.created", subject=f"key-{number}", after={"scopes": ["call"], "n": number})


async def begun(store: Store, gateway: str) -> AuditLog:
    if gateway != "gw_a":
        await store.write(partial(gateway_tx.enter, gateway, is_shared=True))
    log = AuditLog(gateway)
    await store.write(log.begin)
    return log


async def write(store: Store, log: AuditLog, numbers: range) -> None:
    for number in numbers:
        await store.write(partial(log.record, entry(number)))


async def export(store: Store) -> list[bytes]:
    pieces = [piece async for piece in AuditApi(store)._chains()]
    return b"".join(pieces).splitlines()


async def verified(store: Store, *heads: str) -> Verified:
    lines = await export(store)
    return verify(lambda: lines, heads=heads)


async def do(store: Store, *statements: str) -> None:
    for statement in statements:
        await store.write(partial(run, Sql("tampering", statement)))


async def three_chains(store: Store) -> None:
    """Of gateways that followed each other, each with five entries besides its first."""
    for gateway in ("gw_a", "gw_b", "gw_c"):
        await write(store, await begun(store, gateway), range(5))


@requirement("OPS-audit-chain")
async def test_what_is_written_verifies(store: Store) -> None:
    await three_chains(store)
    found = await verified(store)
    assert found.faults == ()
    assert (found.entries, found.chains) == (18, 3)
    assert [(head.gateway, head.number) for head in found.heads] == [("gw_c", 6)]
    assert (await verified(store, found.heads[0].hash)).faults == ()


FIFTH = "SELECT hash FROM audit WHERE gateway = 'gw_b' AND number = 5"
TAMPERINGS: dict[str, tuple[Change, str]] = {
    "changed": (("UPDATE audit SET actor = 'bert' WHERE gateway = 'gw_b' AND number = 3",), "was changed"),
    "changed time": (("UPDATE audit SET at = at + 1 WHERE gateway = 'gw_b' AND number = 3",), "was changed"),
    "removed": (("DELETE FROM audit WHERE gateway = 'gw_b' AND number = 3",), "Entry 3 was removed"),
    "swapped": (
        (
            "UPDATE audit SET number = 99 WHERE gateway = 'gw_b' AND number = 3",
            "UPDATE audit SET number = 3 WHERE gateway = 'gw_b' AND number = 4",
            "UPDATE audit SET number = 4 WHERE gateway = 'gw_b' AND number = 99",
        ),
        "was changed",
    ),
    "removed first": (("DELETE FROM audit WHERE gateway = 'gw_b' AND number = 1",), "Entry 1 was removed"),
    "removed last": (("DELETE FROM audit WHERE gateway = 'gw_b' AND number = 6",), "had 6"),
    "removed chain": (
        ("DELETE FROM audit WHERE gateway = 'gw_b'", "DELETE FROM audit_chains WHERE id = 'gw_b'"),
        "The chain gw_b, of 6 entries when gw_c started, was removed",
    ),
    "removed entries of a chain": (("DELETE FROM audit WHERE gateway = 'gw_b'",), "ends at entry 0 and had 6"),
    "cut tail that another chain names": (
        (
            "DELETE FROM audit WHERE gateway = 'gw_b' AND number = 6",
            "UPDATE audit_chains SET length = 5 WHERE id = 'gw_b'",
            f"UPDATE audit_chains SET head = ({FIFTH}) WHERE id = 'gw_b'",
        ),
        "ends at entry 5 and had 6 when gw_c started",
    ),
    "everything": (("DELETE FROM audit", "DELETE FROM audit_chains"), "no entries"),
}


@requirement("OPS-audit-verify")
@pytest.mark.parametrize("how", TAMPERINGS)
async def test_what_is_done_to_it_is_found(store: Store, how: str) -> None:
    await three_chains(store)
    statements, told = TAMPERINGS[how]
    await do(store, *statements)
    assert any(told in fault for fault in (await verified(store)).faults), (await verified(store)).faults


@requirement("OPS-audit-verify")
@pytest.mark.parametrize("is_whole", [False, True], ids=["cut tail", "removed chain"])
async def test_a_noted_head_shows_a_cut_tail(store: Store, *, is_whole: bool) -> None:
    await three_chains(store)
    head = (await verified(store)).heads[0].hash
    last = 0 if is_whole else 4
    await do(store, f"DELETE FROM audit WHERE gateway = 'gw_c' AND number > {last}")
    if is_whole:
        await do(store, "DELETE FROM audit_chains WHERE id = 'gw_c'")
    else:
        hash_of_last = f"SELECT hash FROM audit WHERE gateway = 'gw_c' AND number = {last}"
        await do(store, f"UPDATE audit_chains SET length = {last}, head = ({hash_of_last}) WHERE id = 'gw_c'")
    assert (await verified(store)).faults == ()  # nothing in the log itself can show it
    assert any("noted head" in fault for fault in (await verified(store, head)).faults)


async def pruned(store: Store, log: AuditLog, before: int = 2**42, limit: int = 2) -> None:
    while await store.write(partial(log.prune, before=before, limit=limit)):
        pass


@requirement("OPS-audit-checkpoint")
async def test_pruning_leaves_a_signed_checkpoint(store: Store) -> None:
    log = await begun(store, "gw_a")
    await write(store, log, range(5))
    await pruned(store, log)
    await write(store, log, range(3))
    found = await verified(store)
    assert found.faults == ()
    assert (found.entries, found.checkpoints) == (4, 1)


@requirement("OPS-audit-checkpoint")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("cut_hash = 'a'", "not signed"),
        ("cut = 5", "not signed"),
        ("cut_at = cut_at + 1", "not signed"),
        ("signature = 'aa'", "not signed"),
        ("signed_by = 'gw_b'", "not signed"),
        ("cut = 0", "Entries 2 to 6 were removed"),
    ],
)
async def test_a_changed_checkpoint_is_found(store: Store, change: str, told: str) -> None:
    log = await begun(store, "gw_a")
    await write(store, log, range(5))
    await pruned(store, log)
    await write(store, log, range(3))
    await begun(store, "gw_b")
    await do(store, f"UPDATE audit_chains SET {change} WHERE id = 'gw_a'")
    assert any(told in fault for fault in (await verified(store)).faults), (await verified(store)).faults


@requirement("OPS-audit-checkpoint")
async def test_chains_of_gateways_that_are_gone_go_when_no_other_names_them(store: Store) -> None:
    await three_chains(store)
    for gateway in ("gw_a", "gw_b"):
        await store.write(partial(gateway_tx.leave, gateway))
    log = await begun(store, "gw_d")
    await pruned(store, log)
    found = await verified(store)
    assert found.faults == ()
    # Nothing is left of the first; of the second its checkpoint, for the third, which is alive, names it.
    assert [line["gateway"] for line in map(msgspec.json.decode, await export(store))] == [
        "gw_b",
        "gw_c",
        "gw_c",
        "gw_d",
        "gw_d",
    ]


@requirement("OPS-audit-chain")
async def test_two_gateways_and_many_writers_at_once(store: Store) -> None:
    logs = [await begun(store, "gw_a"), await begun(store, "gw_b")]
    await asyncio.gather(*(store.write(partial(log.record, entry(n), entry(-n))) for n in range(100) for log in logs))
    found = await verified(store)
    assert found.faults == ()
    assert found.entries == 402


@requirement("OPS-audit-chain")
async def test_an_entry_commits_with_its_change_or_not_at_all(store: Store) -> None:
    log = await begun(store, "gw_a")

    def fails_late() -> Script[None]:
        yield "put_shared_value", {"name": "late", "value": "1"}
        yield from log.record(entry(1))
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        await store.write(fails_late)
    changing: Callable[[], Script[str]] = partial(gateway_tx.shared_value, "kept", otherwise="1")
    noted = log.noting(changing, lambda value: Entry(actor="a", action="b.c", subject=value))
    assert await store.write(noted) == "1"
    found = await store.read(partial(entries, AuditFilter(), limit=10))
    assert [one.action for one in found] == ["b.c", "gateway.started"]
    assert (await verified(store)).faults == ()


@requirement("OPS-audit-chain")
async def test_filters_and_pages(store: Store) -> None:
    log = await begun(store, "gw_a")
    await write(store, log, range(5))
    await store.write(partial(log.record, Entry(actor="bert", action="keys.listed", subject="x")))

    async def page(wanted: AuditFilter, cursor: str | None = None) -> list[str]:
        return [one.subject for one in await store.read(partial(entries, wanted, limit=3, cursor=cursor))]

    assert await page(AuditFilter(action="key.*")) == ["key-4", "key-3", "key-2"]
    assert await page(AuditFilter(actor="bert")) == ["x"]
    assert await page(AuditFilter(action="key.created", since=2**42)) == []
    assert await page(AuditFilter(action="key.created", until=0)) == []
    third = (await store.read(partial(entries, AuditFilter(action="key.*"), limit=3)))[-1].id
    assert await page(AuditFilter(action="key.*"), third) == ["key-1", "key-0"]


@requirement("OPS-audit-chain")
async def test_nothing_secret_nothing_large_nothing_a_database_would_change(store: Store) -> None:
    log = AuditLog("gw_a", redact=lambda text: text.replace("hunter2", "***"))
    await store.write(log.begin)
    odd = {"text": "a\0b\ud800", "big": 2**80, "float": 1e300, "nan": float("nan"), "headers": {"X-Api-Key": "k"}}
    values = {**odd, "said": "it is hunter2", "client_secret": "${NAME}", "many": list(range(1000)), "e": "é" * 5000}
    after = {"large": ["x" * 900] * 100}
    await store.write(
        partial(log.record, Entry(actor="a\0b", action="k.c", subject="s" * 9999, before=values, after=after))
    )
    found = (await store.read(partial(entries, AuditFilter(), limit=1)))[0]
    assert found.actor == "a\ufffdb"
    assert found.before["headers"] == {"X-Api-Key": "[hidden]"}
    assert found.before["client_secret"] == "${NAME}"
    assert found.before["said"] == "it is ***"
    assert found.after["too_large"] is True
    assert (await verified(store)).faults == ()
