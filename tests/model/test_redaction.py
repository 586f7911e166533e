import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from jackfield.model.redaction import without_secrets


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"a":"x s3cr3t-value y"}', b'{"a":"x [redacted] y"}'),
        (b'{"s3cr3t-value":1}', b'{"[redacted]":1}'),
        (b'{"pin":12345678}', b'{"pin":"[redacted]"}'),
        (b'[12345678, "n12345678n", 1]', b'["[redacted]","n[redacted]n",1]'),
        (b'{"n":9912345678.5}', b'{"n":"[redacted]"}'),
    ],
)
def test_a_secret_is_replaced_and_the_json_stays_json(before: bytes, after: bytes) -> None:
    assert bytes(without_secrets(Raw(before), ["s3cr3t-value", "12345678"])) == after


def test_what_has_no_secret_in_it_is_left_as_it_is() -> None:
    raw = Raw(b'{ "a" : 1 }')
    assert without_secrets(raw, ["12345678", "s3cr3t-value"]) is raw


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.sampled_from(["12345678", "a\"b\\c'd"]), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)


@given(JSON, st.lists(st.sampled_from(["12345678", "a\"b\\c'd"]), unique=True))
def test_whatever_is_replaced_the_rest_can_be_read(value: object, secrets: list[str]) -> None:
    after = without_secrets(Raw(msgspec.json.encode(value)), sorted(secrets, key=len, reverse=True))
    msgspec.json.decode(after)
    assert not any(msgspec.json.encode(secret)[1:-1] in bytes(after) for secret in secrets)
