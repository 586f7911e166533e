"""Which Host and Origin are ours."""

import pytest

from jackfield.errors import Forbidden, Misdirected
from jackfield.http.hosts import Hosts, origin_of
from jackfield.settings import ServerSettings

DEFAULT = Hosts(ServerSettings())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8420", "LocalHost:1", "127.0.0.1:65000"])
def test_local_names_are_ours_with_any_port(host: str) -> None:
    DEFAULT.check_host(host.encode())
    DEFAULT.check_host(host.encode())


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
        "localhost:80:90",
        "localhost:x",
        "[::1]",
        "[localhost",
        "127.0.0.2",
    ],
)
def test_other_names_are_refused_with_the_setting_that_would_allow_them(host: str) -> None:
    with pytest.raises(Misdirected, match="allowed_hosts"):
        DEFAULT.check_host(host.encode())


def test_a_request_without_a_host_is_refused() -> None:
    with pytest.raises(Misdirected, match="no Host header"):
        DEFAULT.check_host(None)


@pytest.mark.parametrize(
    ("server", "host"),
    [
        (ServerSettings(allowed_hosts=("gw.example",)), "gw.example:8420"),
        (ServerSettings(allowed_hosts=(), public_url="https://tools.example/x"), "tools.example"),
        (ServerSettings(allowed_hosts=(), host="192.168.1.5"), "192.168.1.5:8420"),
        (ServerSettings(allowed_hosts=(), host="::1"), "[::1]:8420"),
        (ServerSettings(allowed_hosts=("*",)), "anything.example"),
    ],
)
def test_what_the_operator_names_is_ours(server: ServerSettings, host: str) -> None:
    Hosts(server).check_host(host.encode())


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_listening_everywhere_does_not_make_every_address_ours(bound: str) -> None:
    with pytest.raises(Misdirected):
        Hosts(ServerSettings(allowed_hosts=(), host=bound)).check_host(b"0.0.0.0:8420")


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1"])
def test_pages_of_our_hosts_may_ask(origin: str) -> None:
    DEFAULT.check_origin(origin.encode())


def test_no_origin_is_no_page() -> None:
    DEFAULT.check_origin(None)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "localhost",
        "file://localhost",
        "http://localhost@evil.example",
        "http://evil.example/?http://localhost",
        "http://[",
        "chrome-extension://localhost",
    ],
)
def test_pages_of_others_may_not(origin: str) -> None:
    with pytest.raises(Forbidden, match="allowed_hosts"):
        DEFAULT.check_origin(origin.encode())


def test_a_refusal_shows_foreign_text_without_control_characters() -> None:
    with pytest.raises(Forbidden) as refused:
        DEFAULT.check_origin(b"http://evil\x1b[31m" + b"x" * 500)
    assert "\x1b" not in refused.value.message
    assert len(refused.value.message) < 400


def test_only_our_own_page_has_our_origin_port_included() -> None:
    assert DEFAULT.is_own_origin(b"http://localhost:8420", scheme="http", host=b"localhost:8420")
    for foreign in (b"http://localhost:3000", b"https://localhost:8420", b"http://127.0.0.1:8420", b"null", None):
        assert not DEFAULT.is_own_origin(foreign, scheme="http", host=b"localhost:8420")


def test_behind_a_proxy_the_public_url_is_our_own_origin() -> None:
    hosts = Hosts(ServerSettings(public_url="https://Tools.example:443/"))
    assert hosts.is_own_origin(b"https://tools.example", scheme="http", host=b"10.0.0.1:8420")
    assert not hosts.is_own_origin(b"http://tools.example", scheme="http", host=b"10.0.0.1:8420")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://a:80/x", "http://a"),
        ("https://a:80", "https://a:80"),
        ("http://[::1]:8420", "http://[::1]:8420"),
        ("http://a:port", None),
        ("nothing", None),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert origin_of(url) == origin
