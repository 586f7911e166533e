"""The operator's secrets, in whatever form somebody writes them."""

import hashlib
import json
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from jackfield.model.redaction import REDACTED, KnownSecrets, LongSecrets, SecretForms, cut
from tests.requirement import requirement

SECRET = 'p/q+r"s\\t\né😀'


def cleaned(before: bytes, *secrets: str) -> bytes:
    return bytes(SecretForms(secrets).json(Raw(before)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"a":"x s3cr3t-value y"}', b'{"a":"x [redacted] y"}'),
        (b'{"s3cr3t-value":1}', b'{"[redacted]":1}'),
        (b'{"pin":12345678}', b'{"pin":"[redacted]"}'),
        (b'[12345678, "n12345678n", 1]', b'["[redacted]","n[redacted]n",1]'),
        (b'{"n":9912345678.5}', b'{"n":"[redacted]"}'),
        (b'{"a":"1,2,3","b":[1,2,3]}', b'{"a":"[redacted]","b":[1,2,3]}'),
    ],
)
def test_a_secret_is_replaced_and_the_json_stays_json(before: bytes, after: bytes) -> None:
    assert cleaned(before, "s3cr3t-value", "12345678", "1,2,3") == after


def test_what_has_no_secret_in_it_is_left_as_it_is() -> None:
    raw = Raw(b'{ "a" : "\\u00e9 \\/ \\n" }')
    assert SecretForms(["12345678", "s3cr3t/value"]).json(raw) is raw


@requirement("SAFE-redaction-every-form")
def test_a_secret_has_four_characters_and_a_word_of_everybody_is_none() -> None:
    assert cleaned(b'{"a":"xabcdx","b":true,"c":"true","d":"abc"}', "abcd", "true", "abc") == (
        b'{"a":"x[redacted]x","b":true,"c":"true","d":"abc"}'
    )


WAYS: list[Callable[[str], str]] = [
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    lambda text: "".join(f"\\u{n:04X}" for n in memoryview(text.encode("utf-16-le")).cast("H")),
    lambda text: "".join(f"\\u{n:04x}" for n in memoryview(text.encode("utf-16-le")).cast("H")),
    lambda text: json.dumps(text)[1:-1].replace("+", "\\u002B").replace("p", "\\u0070"),
]


@requirement("SAFE-redaction-every-form")
@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("secret", [SECRET, "pass/word+1", "a+b/c=="])
def test_every_way_in_which_json_writes_a_secret_is_found_also_within_strings(
    secret: str, write: Callable[[str], str]
) -> None:
    body = f'{{"a":"x {write(secret)} y"}}'
    assert json.loads(body) == {"a": f"x {secret} y"}
    assert json.loads(cleaned(body.encode(), secret)) == {"a": "x [redacted] y"}
    assert SecretForms([secret]).text(f"it said {body}") == 'it said {"a":"x [redacted] y"}'
    for _ in range(3):
        body = json.dumps({"inner": body})
        inner = json.loads(cleaned(body.encode(), secret))
        while "inner" in inner:
            inner = json.loads(inner["inner"])
        assert inner == {"a": "x [redacted] y"}


@requirement("SAFE-redaction-every-form")
def test_an_address_and_the_lines_of_a_key_are_found() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"
    forms = SecretForms(["a b/c+d", key])
    assert (
        forms.text("https://x.example/?k=a%20b%2Fc%2Bd&l=a%20b%2fc%2bd&m=a+b%2Fc%2Bd")
        == "https://x.example/?k=[redacted]&l=[redacted]&m=[redacted]"
    )
    assert forms.text("line 2 is MIIEvQIBADANBg") == "line 2 is [redacted]"


@requirement("SAFE-redaction-every-form")
@pytest.mark.parametrize("kept", range(4, 13))
def test_half_of_a_secret_at_a_cut_is_taken_for_the_whole(kept: int) -> None:
    forms = SecretForms(["s3cr3t-value", "other-secret"])
    assert forms.text(cut("it says s3cr3t-value and more", 8 + kept)) == "it says [redacted]…"
    assert forms.text(f"'{'s3cr3t-value'[:kept]}'…").removesuffix("…") == "'[redacted]'"
    assert forms.text(f"…{'s3cr3t-value'[-kept:]} is it") == "…[redacted] is it"


def test_what_is_not_cut_is_no_half() -> None:
    assert SecretForms(["test-key-1"]).text("this is a test") == "this is a test"
    assert cut("abc", 3) == "abc"


def test_a_longer_secret_leaves_no_tail_behind() -> None:
    assert SecretForms(["token-12", "token-12345678"]).text("a token-12345678 b") == "a [redacted] b"


@requirement("SAFE-redaction-every-form")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a":"tok\\u002dEN\\u002D12345678"}', '{"a":"[redacted]"}'),
        ("it says tok-EN-123456…", "it says [redacted]…"),
        ("it says abcabcabc…", "it says [redacted]…"),
        ("…EN-12345678 it says", "…[redacted] it says"),
    ],
)
def test_a_short_secret_within_a_longer_one_does_not_hide_the_rest(before: str, after: str) -> None:
    assert SecretForms(["tok-EN-12345678", "1234", "abcabcabc"]).text(before) == after


def test_a_secret_that_no_json_can_hold_stops_nothing() -> None:
    assert cleaned(b'{"a":"abcd"}', "x\udcff-secret", "abcd") == b'{"a":"[redacted]"}'


@pytest.mark.parametrize("hostile", ["\\" * 300_000 + "u0061", "\\u005c" * 50_000 + "u0061", "\\u0061" * 50_000])
def test_a_text_full_of_escapes_is_looked_through_in_linear_time(hostile: str) -> None:
    began = time.process_time()
    SecretForms(["aaab-secret", SECRET]).text(hostile)
    assert time.process_time() - began < 5


def test_secrets_that_are_read_later_are_known_then() -> None:
    used: set[str] = set()
    known = KnownSecrets(lambda: used)
    assert known.text("s3cr3t-value") == "s3cr3t-value"
    used.add("s3cr3t-value")
    assert known.text("s3cr3t-value") == "[redacted]"


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.sampled_from(["12345678", "a\"b\\c'd"]), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)


@given(JSON, st.lists(st.sampled_from(["12345678", "a\"b\\c'd"]), unique=True))
def test_whatever_is_replaced_the_rest_can_be_read(value: object, secrets: list[str]) -> None:
    after = cleaned(msgspec.json.encode(value), *secrets)
    msgspec.json.decode(after)
    assert not any(msgspec.json.encode(secret)[1:-1] in after for secret in secrets)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(16, 200), st.integers(1, 30))
def test_a_token_is_found_wherever_it_begins_among_however_many(
    before: int, after: int, length: int, others: int
) -> None:
    tokens = LongSecrets()
    many = [hashlib.sha512(str(number).encode()).hexdigest() * 2 for number in range(others + 1)]
    for token in many:
        tokens.note(token[:length])
    secret = many[0][:length]
    known = KnownSecrets(tuple, tokens)
    text = "." * before + secret + "é" * after
    assert known.text(text) == "." * before + REDACTED + "é" * after
    raw = Raw(msgspec.json.encode({"x": [text]}))
    assert msgspec.json.decode(known.json(raw)) == {"x": ["." * before + REDACTED + "é" * after]}
    harmless = Raw(msgspec.json.encode(["." * before, secret[:-1], after]))
    assert known.json(harmless) is harmless


def test_a_token_that_was_cut_or_spelled_for_an_address_is_found() -> None:
    tokens = LongSecrets()
    secret = "ab/cd+" * 8
    tokens.note(secret)
    known = KnownSecrets(tuple, tokens)
    assert known.text(f"says '{secret[:30]}…' and on") == f"says '{REDACTED}…' and on"
    assert known.text(f"…{secret[10:]} and on") == f"…{REDACTED} and on"
    assert known.text(f"https://x/?t={quote(secret, safe='')}&u=1") == f"https://x/?t={REDACTED}&u=1"


def test_of_very_many_tokens_the_least_recently_noted_are_let_go() -> None:
    tokens = LongSecrets(most=3)
    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(5)]
    for name in names[:3]:
        tokens.note(name)
    tokens.note(names[0])
    tokens.note(names[3])
    known = KnownSecrets(tuple, tokens)
    assert [known.text(name) for name in names] == [REDACTED, names[1], REDACTED, REDACTED, names[4]]
    assert len(tokens) == 3
    assert known
    assert not KnownSecrets(tuple, LongSecrets())
