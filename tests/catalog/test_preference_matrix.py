"""Every combination of what a chat, a key and a tool's metadata say, against a plain reading of the rule."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jackfield.catalog.preferences import REQUIRE, SKIP, PreferenceBook
from jackfield.catalog.transactions import Preference
from jackfield.model.tool import Metadata
from tests.catalog.given import entry
from tests.requirement import requirement

CHATS = ("", "c1", "c2")
KEYS = ("ops", "ada")
TOOLS = ("weather", "news")
SAID = st.tuples(st.sampled_from([None, True, False]), st.sampled_from([None, REQUIRE, SKIP]))
PLACES = st.tuples(st.sampled_from(KEYS), st.sampled_from(CHATS), st.sampled_from(TOOLS))
ROWS = st.dictionaries(PLACES, SAID, max_size=12)
METADATA = st.builds(Metadata, enabled_by_default=st.booleans(), requires_approval=st.booleans())


def book_of(rows: dict[tuple[str, str, str], tuple[bool | None, str | None]]) -> PreferenceBook:
    book = PreferenceBook()
    book.load(
        Preference(principal=key, chat_id=chat, scenario="acme", tool=tool, enabled=enabled, approval=approval)
        for (key, chat, tool), (enabled, approval) in rows.items()
    )
    return book


def ruled(rows: dict[Any, tuple[Any, Any]], place: tuple[str, str, str], field: int, otherwise: bool) -> bool:  # noqa: FBT001 - a rule's default
    """The rule itself: the chat's word, else the key's, else the tool's."""
    key, chat, tool = place
    words = [rows.get((key, where, tool), (None, None))[field] for where in ([chat] if chat else []) + [""]]
    said = next((word for word in words if word is not None), None)
    return otherwise if said is None else said in (True, REQUIRE)


@requirement("CON-consumer-precedence", "DISC-consumer-merge-preferences")
@settings(max_examples=300, deadline=None)
@given(rows=ROWS, metadata=METADATA)
def test_what_stands_is_the_chats_word_then_the_keys_then_the_tools_for_each_field_apart(
    rows: dict[tuple[str, str, str], tuple[bool | None, str | None]], metadata: Metadata
) -> None:
    book = book_of(rows)
    tools = {name: entry(name=name, metadata=metadata) for name in TOOLS}
    for key in KEYS:
        for chat in CHATS:
            offered = {one.name for one in book.enabled(list(tools.values()), principal=key, chat_id=chat or None)}
            for name, tool in tools.items():
                place = (key, chat, name)
                stands = book.effective(tool, principal=key, chat_id=chat or None)
                assert stands.enabled is ruled(rows, place, 0, metadata.enabled_by_default)
                assert stands.requires_approval is ruled(rows, place, 1, metadata.requires_approval)
                assert (name in offered) is stands.enabled


@requirement("CON-consumer-precedence")
@settings(max_examples=200, deadline=None)
@given(rows=ROWS, metadata=METADATA, place=PLACES, said=SAID)
def test_what_one_chat_says_never_shows_in_another_nor_for_another_key_or_tool(
    rows: dict[tuple[str, str, str], tuple[bool | None, str | None]],
    metadata: Metadata,
    place: tuple[str, str, str],
    said: tuple[bool | None, str | None],
) -> None:
    before, after = book_of(rows), book_of({**rows, place: said})
    for key in KEYS:
        for chat in CHATS:
            for name in TOOLS:
                is_touched = (key, name) == (place[0], place[2]) and place[1] in ("", chat)
                if not is_touched:
                    tool = entry(name=name, metadata=metadata)
                    was = before.effective(tool, principal=key, chat_id=chat or None)
                    assert was == after.effective(tool, principal=key, chat_id=chat or None)
