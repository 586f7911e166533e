"""Chat before everywhere before metadata, each field on its own, and nothing is allowed while nobody knows."""

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.preferences import REQUIRE, SKIP, Effective, Origin, PreferenceBook, effective
from jackfield.catalog.transactions import Preference
from jackfield.errors import Unavailable
from jackfield.model.tool import Metadata
from tests.catalog.given import entry
from tests.requirement import requirement

ENABLED = (None, True, False)
APPROVAL = (None, REQUIRE, SKIP)


def preference(
    *, enabled: bool | None = None, approval: str | None = None, by_admin: bool = False, **fields: str
) -> Preference:
    usual = {"principal": "ops", "chat_id": "", "scenario": "acme", "tool": "weather"}
    return Preference(**(usual | fields), enabled=enabled, approval=approval, by_admin=by_admin)


def stands(
    everywhere: Preference | None, in_chat: Preference | None, *, enabled: bool = True, approval: bool = False
) -> Effective:
    tool = entry(metadata=Metadata(enabled_by_default=enabled, requires_approval=approval))
    there = None if in_chat is None else msgspec.structs.replace(in_chat, chat_id="c1")
    return effective(tool, weakest_first=(everywhere, there))


@pytest.mark.parametrize("by_default", [True, False])
@pytest.mark.parametrize(("everywhere", "in_chat"), list(product(ENABLED, ENABLED)))
def test_enabled_is_the_chats_word_then_the_keys_then_the_tools(
    *, everywhere: bool | None, in_chat: bool | None, by_default: bool
) -> None:
    found = stands(preference(enabled=everywhere), preference(enabled=in_chat), enabled=by_default)
    if in_chat is not None:
        assert (found.enabled, found.enabled_from) == (in_chat, Origin.CHAT)
    elif everywhere is not None:
        assert (found.enabled, found.enabled_from) == (everywhere, Origin.GLOBAL)
    else:
        assert (found.enabled, found.enabled_from) == (by_default, Origin.METADATA)


@pytest.mark.parametrize("by_default", [True, False])
@pytest.mark.parametrize(("everywhere", "in_chat"), list(product(APPROVAL, APPROVAL)))
def test_approval_is_the_chats_word_then_the_keys_then_the_tools(
    *, everywhere: str | None, in_chat: str | None, by_default: bool
) -> None:
    found = stands(preference(approval=everywhere), preference(approval=in_chat), approval=by_default)
    said = in_chat or everywhere
    origin = Origin.CHAT if in_chat else Origin.GLOBAL if everywhere else Origin.METADATA
    assert (found.approval_override, found.approval_from) == (said or "", origin)
    assert found.requires_approval is (by_default if said is None else said == REQUIRE)


ROWS = st.one_of(st.none(), st.builds(preference, enabled=st.sampled_from(ENABLED), approval=st.sampled_from(APPROVAL)))


@given(everywhere=ROWS, in_chat=ROWS, enabled=st.booleans(), approval=st.booleans())
def test_each_field_is_decided_without_the_other(
    everywhere: Preference | None, in_chat: Preference | None, *, enabled: bool, approval: bool
) -> None:
    """Taking the other field out of every row changes nothing about this one."""
    found = stands(everywhere, in_chat, enabled=enabled, approval=approval)
    rows = (everywhere, in_chat)
    only_enabled = [row and preference(enabled=row.enabled) for row in rows]
    only_approval = [row and preference(approval=row.approval) for row in rows]
    by_enabled = stands(*only_enabled, enabled=enabled, approval=approval)
    by_approval = stands(*only_approval, enabled=enabled, approval=approval)
    assert (found.enabled, found.enabled_from) == (by_enabled.enabled, by_enabled.enabled_from)
    assert (found.requires_approval, found.approval_from, found.approval_override) == (
        by_approval.requires_approval,
        by_approval.approval_from,
        by_approval.approval_override,
    )


@given(everywhere=ROWS, in_chat=ROWS, enabled=st.booleans(), approval=st.booleans())
def test_a_row_that_says_nothing_is_as_good_as_none(
    everywhere: Preference | None, in_chat: Preference | None, *, enabled: bool, approval: bool
) -> None:
    def plain(row: Preference | None) -> Preference | None:
        return None if row is not None and row.enabled is None and row.approval is None else row

    found = stands(everywhere, in_chat, enabled=enabled, approval=approval)
    assert found == stands(plain(everywhere), plain(in_chat), enabled=enabled, approval=approval)


def test_a_word_that_nobody_knows_asks_for_approval() -> None:
    assert stands(preference(approval="whatever"), None).requires_approval


def a_book(*rows: Preference) -> PreferenceBook:
    book = PreferenceBook()
    book.load(rows)
    return book


def test_a_book_finds_the_rows_of_this_key_this_chat_and_this_tool_only() -> None:
    book = a_book(
        preference(enabled=False),
        preference(enabled=True, chat_id="c1"),
        preference(enabled=True, principal="guest"),
        preference(approval=REQUIRE, tool="other"),
        preference(approval=REQUIRE, scenario="elsewhere"),
    )
    weather = entry()

    def enabled(principal: str, chat_id: str | None) -> tuple[bool, Origin]:
        found = book.effective(weather, principal=principal, chat_id=chat_id)
        assert not found.requires_approval
        return found.enabled, found.enabled_from

    assert enabled("ops", None) == (False, Origin.GLOBAL)
    assert enabled("ops", "c1") == (True, Origin.CHAT)
    assert enabled("ops", "c2") == (False, Origin.GLOBAL)
    assert enabled("guest", "c1") == (True, Origin.GLOBAL)
    assert enabled("stranger", "c1") == (True, Origin.METADATA)


def test_an_empty_chat_is_no_chat() -> None:
    """`chat_id ''` is how a row says everywhere; a caller that sends it is in no chat."""
    book = a_book(preference(enabled=False))
    assert book.effective(entry(), principal="ops", chat_id="").enabled_from is Origin.GLOBAL


def test_while_the_preferences_are_not_known_nobody_is_answered() -> None:
    book = PreferenceBook()
    with pytest.raises(Unavailable, match="no call is allowed"):
        book.effective(entry(), principal="ops", chat_id=None)
    book.load([])
    assert book.effective(entry(), principal="ops", chat_id=None).enabled
    book.forget()
    with pytest.raises(Unavailable):
        book.effective(entry(), principal="ops", chat_id=None)


@requirement("SAFE-admins-preferences")
def test_what_an_administrator_says_goes_before_the_keys_own_word_field_by_field() -> None:
    book, weather = PreferenceBook(), entry()
    own = [preference(enabled=True, approval=SKIP), preference(enabled=True, approval=SKIP, chat_id="c1")]
    book.load([*own, preference(enabled=False, by_admin=True, principal="")])
    for chat in (None, "c1"):
        found = book.effective(weather, principal="ops", chat_id=chat)
        assert (found.enabled, found.requires_approval) == (False, False)
    book.load([*own, preference(enabled=False, by_admin=True, principal=""), preference(enabled=True, by_admin=True)])
    assert book.effective(weather, principal="ops", chat_id=None).enabled, "one key's word is more than everybody's"
    assert not book.effective(weather, principal="ada", chat_id=None).enabled
    book.load([*own, preference(approval=REQUIRE, by_admin=True)])
    assert book.effective(weather, principal="ops", chat_id="c1").requires_approval
