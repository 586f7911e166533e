from typing import Any

import pytest

from jackfield.errors import ConfigError
from jackfield.sources.openapi.options import parse_options

URL = "https://service.example/openapi.json"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "sources.shop needs either the url of its document or a file. Give exactly one of the two."),
        ({"url": URL, "file": "x.json"}, "sources.shop needs either the url of its document or a file."),
        ({"file": "x.json"}, "sources.shop: a document in a file does not say where the service is. Add base_url."),
        ({"url": "ftp://x/y"}, "sources.shop.url is invalid."),
        ({"url": "https://me:pw@x.example/y"}, "sources.shop.url has a user or password in it. Put them into auth."),
        ({"url": URL, "base_url": "https://x.example/?key=1"}, "sources.shop.base_url has a query or a fragment."),
        ({"url": URL, "urls": []}, "sources.shop has an unknown key 'urls'. Did you mean 'url'?"),
        ({"url": URL, "include": {"tag": []}}, "sources.shop.include has an unknown key 'tag'. Did you mean 'tags'?"),
        ({"url": URL, "auth": {"type": "digest"}}, "sources.shop.auth.type is invalid"),
        ({"url": URL, "auth": {"type": "bearer"}}, "sources.shop.auth needs the key 'token'. Add it."),
        (
            {"url": URL, "auth": {"type": "bearer", "token": "a\nb"}},
            "sources.shop: the value of the header 'Authorization'",
        ),
        (
            {"url": URL, "auth": {"type": "basic", "user": "a:b", "password": "x"}},
            "sources.shop.auth.user has a ':' in it",
        ),
        ({"url": URL, "auth": {"type": "api_key", "name": "a b", "value": "x"}}, "sources.shop: auth.name has 'a b'"),
        ({"url": URL, "headers": {"Content-Length": "1"}}, "sources.shop: headers has 'Content-Length'"),
        (
            {"url": URL, "auth": {"type": "bearer", "token": "t"}, "headers": {"authorization": "x"}},
            "sources.shop: both auth and headers set 'authorization'. Remove one of the two.",
        ),
        ({"url": URL, "cache_ttl": 0}, "sources.shop.cache_ttl is invalid"),
        ({"url": URL, "max_bytes": -1}, "sources.shop.max_bytes is invalid"),
    ],
)
def test_options_that_cannot_be_used_are_a_sentence_with_the_key_and_the_cure(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_options(options, where="sources.shop")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "secret", [{"type": "bearer", "token": "s3cr3t\nvalue"}, {"type": "api_key", "name": "K", "value": "s3cr3t\u00e9"}]
)
def test_a_secret_that_cannot_be_sent_is_not_shown(secret: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_options({"url": URL, "auth": secret}, where="sources.shop")
    assert "s3cr3t" not in str(refused.value)


def test_where_a_document_is_is_shown_without_what_may_be_secret() -> None:
    assert parse_options({"url": f"{URL}?key=s3cr3t"}, where="x").document == URL
    assert parse_options({"file": "/home/me/x.json", "base_url": URL}, where="x").document == "x.json"
