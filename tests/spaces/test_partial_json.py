"""Arguments that are still being written, read as far as they go."""

import json
import random
import time
from typing import Any

import msgspec
import pytest

from jackfield.spaces.partial_json import PartialJson


def read(text: str) -> Any:
    partial = PartialJson()
    partial.feed(text)
    return partial.value()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("  ", None),
        ("{", {}),
        ('{"quest', {}),
        ('{"question"', {}),
        ('{"question":', {}),
        ('{"question": "Book', {"question": "Book"}),
        ('{"question": "Book it?"', {"question": "Book it?"}),
        ('{"question": "Book it?", "n', {"question": "Book it?"}),
        ('{"n": 12', {}),
        ('{"n": 12,', {"n": 12}),
        ('{"n": 12}', {"n": 12}),
        ('{"n": -1.5e3 ', {"n": -1500.0}),
        ('{"n": tru', {}),
        ('{"n": true}', {"n": True}),
        ('{"a": null, "b": false}', {"a": None, "b": False}),
        ('{"rows": [{"x": 1}, {"x"', {"rows": [{"x": 1}, {}]}),
        ('{"rows": ["one", "tw', {"rows": ["one", "tw"]}),
        ('{"rows": []', {"rows": []}),
        ('{"text": "a\\', {"text": "a"}),
        ('{"text": "a\\n', {"text": "a\n"}),
        ('{"text": "\\u00', {"text": ""}),
        ('{"text": "\\u00e9', {"text": "é"}),
        ('{"text": "\\ud83d', {"text": ""}),
        ('{"text": "\\ud83d\\ude00', {"text": "😀"}),
        ('{"text": "\\ud83dx', {"text": "\ufffdx"}),
        ('{"text": "\\ude00', {"text": "\ufffd"}),
        ('"only a tex', "only a tex"),
        ("[1, 2", [1]),
    ],
)
def test_a_value_is_shown_as_far_as_it_has_come(text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1} x',
        '{"a" 1',
        "{1",
        '{"a": 01,',
        '{"a": nul,',
        "[1 2",
        '{"a": [1}',
        '{"a": "\\x',
        '{"a": "\\u12g',
        ",",
        "}",
    ],
)
def test_what_is_no_json_ends_the_reading_and_takes_nothing_back(text: str) -> None:
    partial = PartialJson()
    partial.feed(text)
    assert partial.is_broken
    before = msgspec.json.encode(partial.value())
    partial.feed('"more": "of it"}')
    assert msgspec.json.encode(partial.value()) == before


def test_nesting_ends_somewhere() -> None:
    partial = PartialJson()
    partial.feed("[" * 100_000)
    assert partial.is_broken
    msgspec.json.encode(partial.value())


def test_pieces_come_to_the_same_as_the_whole_however_they_are_cut() -> None:
    chance = random.Random(7)
    for _ in range(200):
        value = {"args": _some_value(chance, 4)}
        text = json.dumps(value) if chance.random() < 0.5 else msgspec.json.encode(value).decode()
        partial = PartialJson()
        while text:
            cut = chance.randint(1, max(1, min(9, len(text))))
            partial.feed(text[:cut])
            msgspec.json.encode(partial.value())
            text = text[cut:]
        assert not partial.is_broken
        assert partial.value() == value


def test_a_long_text_in_small_pieces_is_read_once() -> None:
    def seconds(pieces: int) -> float:
        partial = PartialJson()
        partial.feed('{"text": "')
        began = time.process_time()
        for _ in range(pieces):
            partial.feed("word \\n")
        assert len(partial.value()["text"]) == 6 * pieces
        return time.process_time() - began

    few = min(seconds(5_000) for _ in range(3))
    assert min(seconds(40_000) for _ in range(3)) < few * 8 * 3


def _some_value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(7 if depth else 5)
    if kind == 0:
        return chance.choice([True, False, None])
    if kind == 1:
        return chance.randint(-(10**6), 10**6)
    if kind == 2:
        return chance.random()
    if kind in (3, 4):
        return "".join(chance.choice('ab "\\\n\t/éü😀{}[],:') for _ in range(chance.randrange(12)))
    if kind == 5:
        return [_some_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {f"k{n}": _some_value(chance, depth - 1) for n in range(chance.randrange(4))}
