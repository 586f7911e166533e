from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.errors import ConfigError
from jackfield.outgoing.guard import (
    Address,
    closed_because,
    embedded,
    is_host_name,
    literal,
    parse_allowed,
)

CLOSED = {
    "127.0.0.1": "a loopback",
    "127.255.255.254": "a loopback",
    "::1": "a loopback",
    "10.1.2.3": "a private",
    "172.16.0.1": "a private",
    "172.31.255.255": "a private",
    "192.168.1.1": "a private",
    "fd12:3456::1": "a private",
    "fec0::1": "a private",
    "169.254.1.1": "a link-local",
    "fe80::1": "a link-local",
    "fe80::1%eth0": "a link-local",
    "169.254.169.254": "a cloud metadata",
    "fd00:ec2::254": "a cloud metadata",
    "100.100.100.200": "a cloud metadata",
    "168.63.129.16": "a cloud metadata",
    "192.0.0.192": "a cloud metadata",
    "0.0.0.0": "the unspecified",
    "::": "the unspecified",
    "100.64.0.1": "a carrier-grade NAT",
    "100.127.255.255": "a carrier-grade NAT",
    "224.0.0.1": "a multicast",
    "239.255.255.250": "a multicast",
    "ff02::1": "a multicast",
    "ff0e::1": "a multicast",
    "0.1.2.3": "a reserved",
    "192.0.2.1": "a reserved",
    "198.18.0.1": "a reserved",
    "203.0.113.9": "a reserved",
    "240.0.0.1": "a reserved",
    "255.255.255.255": "a reserved",
    "2001:db8::1": "a reserved",
    "::127.0.0.1": "a reserved",
    "100::1": "a reserved",
    "4000::1": "a reserved",
    "64:ff9b:1::a00:1": "a reserved",
    "::ffff:127.0.0.1": "a loopback",
    "::ffff:a9fe:a9fe": "a cloud metadata",
    "64:ff9b::10.0.0.1": "a private",
    "64:ff9b::169.254.169.254": "a cloud metadata",
    "2002:7f00:1::": "a tunnel",
    "2002:808:808::1": "a tunnel",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "a tunnel",
}
PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "172.15.255.255",
    "172.32.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize(("address", "kind"), CLOSED.items())
def test_an_address_that_is_not_public_is_closed_and_says_what_it_is(address: str, kind: str) -> None:
    assert closed_because(ip_address(address)) == kind


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_open(address: str) -> None:
    assert closed_because(ip_address(address)) is None


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_every_ipv6_wrapping(address: IPv4Address) -> None:
    mapped = ip_address(f"::ffff:{address}")
    translated = ip_address(f"64:ff9b::{address}")

    assert embedded(mapped) == embedded(translated) == address
    assert closed_because(mapped) == closed_because(translated) == closed_because(address)


@given(st.ip_addresses())
def test_what_the_standard_library_calls_not_global_is_never_open(address: Address) -> None:
    if embedded(address) is None and not address.is_global:
        assert closed_because(address) is not None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("::1", "::1"),
    ],
)
def test_every_spelling_of_an_address_is_that_address(host: str, address: str) -> None:
    assert literal(host) == ip_address(address)


@pytest.mark.parametrize("host", ["example.com", "1.2.3.4.5", "0x7f.example", "99999999999", "", "dead.beef"])
def test_a_name_is_no_address(host: str) -> None:
    assert literal(host) is None


@pytest.mark.parametrize("host", ["a", "a.b", "xn--mller-kva.de", "my_host", "a" * 63, ".".join(["a" * 60] * 4)])
def test_a_host_name_can_be_asked_of_dns(host: str) -> None:
    assert is_host_name(host)


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", "a b", "a%20b", "é", "a" * 64, ".".join(["a" * 60] * 5), "a\n", "[x]"]
)
def test_what_dns_cannot_know_is_no_host_name(host: str) -> None:
    assert not is_host_name(host)


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "permits"),
    [
        ("127.0.0.1", "127.0.0.1", 80, "127.0.0.1", True),
        ("127.0.0.1", "any.example", 80, "127.0.0.1", True),
        ("127.0.0.1", "any.example", 80, "127.0.0.2", False),
        ("127.0.0.1", "any.example", 80, "::ffff:127.0.0.1", True),
        ("127.0.0.1:8080", "any.example", 8080, "127.0.0.1", True),
        ("127.0.0.1:8080", "any.example", 8081, "127.0.0.1", False),
        ("10.0.0.0/8", "any.example", 80, "10.200.0.1", True),
        ("10.0.0.0/8", "any.example", 80, "11.0.0.1", False),
        ("10.0.0.0/8", "any.example", 80, "64:ff9b::10.0.0.1", True),
        ("10.1.2.3/8", "any.example", 80, "10.9.9.9", True),
        ("fd00::/8", "any.example", 80, "fd00::5", True),
        ("fd00::/8", "any.example", 80, "10.0.0.5", False),
        ("::1", "any.example", 80, "::1", True),
        ("[::1]", "any.example", 80, "::1", True),
        ("[::1]:81", "any.example", 81, "::1", True),
        ("[::1]:81", "any.example", 80, "::1", False),
        ("intranet.example", "intranet.example", 80, "10.0.0.1", True),
        ("Intranet.Example.", "intranet.example", 80, "10.0.0.1", True),
        ("intranet.example", "other.example", 80, "10.0.0.1", False),
        ("intranet.example", "sub.intranet.example", 80, "10.0.0.1", False),
        ("intranet.example:81", "intranet.example", 81, "10.0.0.1", True),
        ("intranet.example:81", "intranet.example", 80, "10.0.0.1", False),
        ("müller.example", "xn--mller-kva.example", 80, "10.0.0.1", True),
        ("2130706433", "any.example", 80, "127.0.0.1", True),
    ],
)
def test_an_entry_of_the_allow_list_opens_what_it_names_and_nothing_else(
    entry: str, host: str, port: int, address: str, *, permits: bool
) -> None:
    assert parse_allowed(entry).covers(host, port, ip_address(address)) is permits


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.example",
        "http://intranet.example",
        "intranet.example:",
        "intranet.example:0",
        "intranet.example:65536",
        "intranet.example:http",
        "10.0.0.0/33",
        "10.0.0.0/8:80",
        "intranet.example/8",
        "a b",
        "[::1",
        "fe80::1%eth0",
        "①②⑦.example",
    ],
)
def test_an_entry_that_names_nothing_is_a_config_error_that_shows_how(entry: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_allowed(entry)

    assert str(refused.value) == (
        f"[outgoing] allow has '{entry}', which is not a host, address, network or host:port. "
        'Write it like "intranet.example", "127.0.0.1", "10.0.0.0/8" or "intranet.example:8080".'
    )
