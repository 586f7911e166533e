"""Sources and secrets made at run time, in every store: one of a name, changes that do not overwrite others unseen."""

from functools import partial

from jackfield.identity.vault_transactions import SealedRow
from jackfield.sources import run_time_transactions as tx
from jackfield.store import Store


async def test_a_source_is_made_once_changed_by_who_saw_it_and_removed(store: Store) -> None:
    made = await store.write(partial(tx.add_source, "wiki", '{"kind":"mcp"}', created_by="ops"))
    assert made is not None
    assert (made.name, made.settings, made.created_by) == ("wiki", '{"kind":"mcp"}', "ops")
    assert await store.write(partial(tx.add_source, "wiki", "{}", created_by="other")) is None

    changed = await store.write(partial(tx.change_source, "wiki", '{"a":1}', before='{"kind":"mcp"}'))
    assert changed is not None
    assert changed.settings == '{"a":1}'
    assert await store.write(partial(tx.change_source, "wiki", '{"b":1}', before='{"kind":"mcp"}')) is None
    assert [one.settings for one in (await store.read(tx.sources_and_secrets))[0]] == ['{"a":1}']

    removed = await store.write(partial(tx.delete_source, "wiki"))
    assert removed is not None
    assert await store.write(partial(tx.delete_source, "wiki")) is None
    assert await store.read(tx.sources_and_secrets) == ([], [])


async def test_a_secret_is_replaced_counted_and_removed_with_its_value(store: Store) -> None:
    def row(sealed: str) -> SealedRow:
        return SealedRow(kind=tx.SECRET, id="TOKEN", key_id="k", sealed=sealed)

    first = await store.write(partial(tx.put_secret, row("s1"), updated_by="ops"))
    second = await store.write(partial(tx.put_secret, row("s2"), updated_by="other"))
    assert (first.version, second.version) == (1, 2)
    [kept] = (await store.read(tx.sources_and_secrets))[1]
    assert (kept.name, kept.sealed, kept.updated_by, kept.version) == ("TOKEN", "s2", "other", 2)
    assert await store.write(partial(tx.delete_secret, "TOKEN"))
    assert not await store.write(partial(tx.delete_secret, "TOKEN"))
    assert await store.read(tx.sources_and_secrets) == ([], [])


async def test_whoever_follows_is_woken_by_each_change(store: Store) -> None:
    row = SealedRow(kind=tx.SECRET, id="TOKEN", key_id="k", sealed="s1")
    with store.bus.listen(tx.SOURCES_TOPIC) as woken:
        await store.write(partial(tx.add_source, "wiki", "{}", created_by="ops"))
        assert woken.is_set()
        woken.clear()
        await store.write(partial(tx.put_secret, row, updated_by="ops"))
        assert woken.is_set()
        woken.clear()
        await store.write(partial(tx.delete_source, "wiki"))
        assert woken.is_set()
