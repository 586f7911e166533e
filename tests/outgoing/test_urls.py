from ipaddress import ip_address

import pytest

from jackfield.outgoing import OutgoingBadUrl
from jackfield.outgoing.urls import HttpOrigin, named_origin, parse_url, take_user, with_params


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("http://Example.COM", "http://example.com"),
        ("HTTPS://example.com:443/a", "https://example.com/a"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://127.0.0.1./", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1:8080/", "http://127.0.0.1:8080/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"),
        ("http://[::FFFF:127.0.0.1]/", f"http://[{ip_address('::ffff:7f00:1')}]/"),
        ("http://müller.example/ü", "http://xn--mller-kva.example/%C3%BC"),
        ("http://a.example\\@127.0.0.1/", "http://a.example%5C@127.0.0.1/"),
        ("http://a.example/x?y=1#z", "http://a.example/x?y=1"),
        ("http://a.example/a/../b", "http://a.example/b"),
    ],
)
def test_a_url_has_one_spelling(url: str, spelled: str) -> None:
    assert str(parse_url(url)) == spelled


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/x",
        "/x",
        "http://",
        "http:///x",
        "http://:80/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "ws://example.com/",
        "javascript:alert(1)",
        "http://example.com:0/",
        "http://example.com:-1/",
        "http://example.com:65536/",
        "http://example.com:http/",
        "http://0177.0.0.1/",
        "http://1.2.3.256/",
        "http://[::1/",
        "http://[nonsense]/",
        "http://a..b/",
        "http://a b/",
        "http://%31%32%37.0.0.1/",
        "http://①②⑦.0.0.1/",
        "http://exa\nmple.com/",
        "http://exa\x00mple.com/",
        f"http://{'a' * 64}.example/",
        f"http://example.com/{'a' * 70_000}",
    ],
)
def test_a_url_that_http_cannot_reach_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(OutgoingBadUrl) as refused:
        parse_url(url)

    assert str(refused.value).startswith("The url '")
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_a_refused_url_is_shown_without_user_and_query() -> None:
    with pytest.raises(OutgoingBadUrl) as refused:
        parse_url("ftp://me:hunter22@example.com/path?token=hunter33#hunter44")

    assert str(refused.value) == (
        "The url 'ftp://example.com/path' is not an http or https url. Only these are requested."
    )


def test_the_user_is_taken_out_of_a_url() -> None:
    url, user = take_user(parse_url("http://me%40x:pass%3Aword@example.com/x"))

    assert str(url) == "http://example.com/x"
    assert user == ("me@x", "pass:word")
    assert take_user(url) == (url, None)


def test_an_origin_is_scheme_host_and_port() -> None:
    assert named_origin("https://Example.com/a?b") == HttpOrigin("https", "example.com", 443)
    assert named_origin("http://example.com:443") == HttpOrigin("http", "example.com", 443)
    assert str(HttpOrigin("http", "::1", 8080)) == "http://[::1]:8080"
    assert str(HttpOrigin("https", "example.com", 443)) == "https://example.com"


def test_params_come_after_the_query_a_url_has() -> None:
    url = with_params(parse_url("http://a.example/x?fixed=1"), (("q", "a b&c=d/é"), ("q", "")))

    assert str(url) == "http://a.example/x?fixed=1&q=a%20b%26c%3Dd%2F%C3%A9&q="
