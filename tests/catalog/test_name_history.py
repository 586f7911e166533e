"""Names that were given up: they stay free, whatever is read or written meanwhile."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.catalog.name_history import Names
from jackfield.catalog.names import KeptName
from jackfield.catalog.transactions import take_names, tool_names
from tests.catalog.test_pins_api import ForeignSource, foreign_source_gateway
from tests.requirement import requirement
from tests.store.intercepting import intercept
from tests.waiting import eventually_async

ACME = ("acme", "pay")
PAY = KeptName(name="pay", wish="pay", is_foreign=True)


@requirement("OPS-freed-names-stay-free")
def test_a_name_that_is_freed_while_it_is_written_or_read_does_not_come_back() -> None:
    named = Names().reading({})
    written = Names(current={ACME: PAY}, unwritten={ACME: PAY}).freeing({ACME})
    assert (written.current, written.unwritten) == ({}, {})
    late = written.reading({ACME: PAY})
    assert (late.current, late.freed) == ({}, {ACME: PAY})
    assert named.reading({ACME: PAY}).current == {ACME: PAY}

    read = Names().reading({ACME: PAY}).freeing({ACME}).reading({ACME: PAY})
    assert (read.current, read.freed) == ({}, {ACME: PAY})


@requirement("OPS-freed-names-stay-free")
def test_what_was_given_up_is_forgotten_once_the_store_is_without_it() -> None:
    freed = Names().reading({ACME: PAY}).freeing({ACME})
    assert freed.forgetting(freed.given_up).given_up == {ACME: PAY}
    gone = freed.reading({})
    assert gone.given_up == {ACME: PAY}
    assert gone.forgetting({}).given_up == {ACME: PAY}
    assert gone.forgetting(freed.given_up).given_up == {}


@requirement("OPS-freed-names-stay-free")
async def test_a_source_that_goes_while_its_names_are_written_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Adds.")) as api:
        await api.written(1)
        store, registry = api.gateway.store, api.gateway.source_registry
        left: list[Any] = []

        async def removed_meanwhile(names: Any) -> None:
            await store.write(partial(take_names, names))
            if any(one.source == "shop" for one in names) and not left:
                left.append(names)
                await registry.remove("shop")
                await api.gateway.take_listings()

        intercept(monkeypatch, store, take_names, removed_meanwhile)
        await registry.add(ForeignSource("shop", sell="Sells."))
        await api.gateway.take_listings()

        async def is_free() -> bool:
            return bool(left) and not any(one.source == "shop" for one in await store.read(tool_names))

        await eventually_async(is_free)
        api.source.descriptions = {"add": "Adds.", "sell": "Sells here."}
        await api.ask("POST", "/api/v1/tools/refresh")
        assert await api.call("sell") == "Sells here."
