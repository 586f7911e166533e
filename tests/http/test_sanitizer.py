"""Sentences about the gateway, cleaned before strangers read them."""

from pathlib import Path

import pytest

from jackfield.http.response import Sanitizer

DISCRETION = Sanitizer(lambda: ["s3cret-value", "abc"], (Path("/srv/gw"), Path("/srv/gw/.jackfield")))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("tools/a.py has a syntax error in line 3.", "tools/a.py has a syntax error in line 3."),
        ("/srv/gw/tools/a.py has a fault.", "tools/a.py has a fault."),
        ("[Errno 2] No such file: '/home/ada/x/y.py'", "[Errno 2] No such file: '…/y.py'"),
        ("open(/etc/ssl/) failed", "open(…/ssl) failed"),
        ("~/.ssh/id is not for you", "…/id is not for you"),
        ("https://acme.example/api/v1 answered 503.", "https://acme.example/api/v1 answered 503."),
        ("See GET /readyz. Set it (PUT /api/v1/secrets/A).", "See GET /readyz. Set it (PUT /api/v1/secrets/A)."),
        ("Use one and / or the other.", "Use one and / or the other."),
        ("acme said s3cret-value is wrong", "acme said [redacted] is wrong"),
        ("an abc word", "an abc word"),
    ],
)
def test_a_sentence_keeps_its_sense_and_loses_secrets_and_places(said: str, shown: str) -> None:
    assert DISCRETION.text(said) == shown
