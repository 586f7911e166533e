"""Models made at run time, in every store: one of a name, changes that do not overwrite others unseen."""

from functools import partial

from jackfield.llm import transactions as tx
from jackfield.store import Store


async def test_a_model_is_made_once_changed_by_who_saw_it_and_removed(store: Store) -> None:
    with store.bus.listen(tx.MODELS_TOPIC) as woken:
        made = await store.write(partial(tx.add_model, "fast", '{"a":1}', created_by="ops"))
        assert woken.is_set()
    assert made is not None
    assert (made.name, made.settings, made.created_by) == ("fast", '{"a":1}', "ops")
    assert await store.write(partial(tx.add_model, "fast", "{}", created_by="other")) is None
    changed = await store.write(partial(tx.change_model, "fast", '{"a":2}', before='{"a":1}'))
    assert changed is not None
    assert await store.write(partial(tx.change_model, "fast", '{"b":1}', before='{"a":1}')) is None
    assert [one.settings for one in await store.read(tx.all_models)] == ['{"a":2}']
    assert await store.write(partial(tx.delete_model, "fast")) is not None
    assert await store.write(partial(tx.delete_model, "fast")) is None
    assert await store.read(tx.all_models) == []
