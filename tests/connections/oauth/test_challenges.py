import pytest

from jackfield.connections.oauth import (
    AuthorizationServer,
    Challenge,
    StepUpRefused,
    Target,
    Tokens,
    challenge_of,
    parse_challenges,
    refusal_of,
    stepped_up_scopes,
)
from jackfield.connections.oauth.challenges import MAX_HEADER, MAX_SCOPES, initial_scopes, split_scopes
from tests.requirement import requirement

METADATA = "https://mcp.example/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer", [Challenge(scheme="bearer")]),
        (
            f'Bearer resource_metadata="{METADATA}", scope="a b"',
            [Challenge(scheme="bearer", resource_metadata=METADATA, scopes=("a", "b"))],
        ),
        (
            'bearer realm="x, y=\\"z\\"", error=insufficient_scope ,scope="a"',
            [Challenge(scheme="bearer", scopes=("a",), error="insufficient_scope")],
        ),
        (
            'Basic realm="r", DPoP algs="ES256 RS256", Bearer error="invalid_token"',
            [
                Challenge(scheme="basic"),
                Challenge(scheme="dpop", algs=("ES256", "RS256")),
                Challenge(scheme="bearer", error="invalid_token"),
            ],
        ),
        (
            "Negotiate YWJj==, Bearer scope=one",
            [Challenge(scheme="negotiate"), Challenge(scheme="bearer", scopes=("one",))],
        ),
        ('Bearer scope="a", scope="b"', [Challenge(scheme="bearer", scopes=("a",))]),
        ('Bearer scope="a" error="x"', [Challenge(scheme="bearer", scopes=("a",), error="x")]),
        ('scope="a"', []),
        ('Bearer scope="never ends', [Challenge(scheme="bearer")]),
        ("", []),
        (",,, ,", []),
        ('"""', []),
    ],
)
def test_a_header_is_taken_apart_into_its_challenges(header: str, expected: list[Challenge]) -> None:
    assert list(parse_challenges(header)) == expected


def test_a_huge_header_is_cut_and_read_in_time() -> None:
    header = "Bearer " + ", ".join(f'a{n}="x"' for n in range(100_000)) + ', scope="late"'

    assert parse_challenges(header)[0].scopes == ()
    assert len(parse_challenges('"' * MAX_HEADER * 2)) == 0
    assert len(parse_challenges("a=" * MAX_HEADER)) <= MAX_HEADER


def test_bearer_is_met_before_dpop() -> None:
    both = challenge_of({"www-authenticate": 'DPoP algs="ES256", Bearer scope="a"'})
    only = challenge_of({"www-authenticate": 'DPoP algs="ES256"'})

    assert both is not None
    assert both.scheme == "bearer"
    assert only is not None
    assert only.scheme == "dpop"
    assert challenge_of({"www-authenticate": 'Basic realm="x"'}) is None
    assert challenge_of({}) is None


def test_scopes_are_those_of_the_standard_each_once_and_not_too_many() -> None:
    assert split_scopes('a b  a "q" \\ \x00 ü c') == ("a", "b", "c")
    assert len(split_scopes(" ".join(f"s{n}" for n in range(MAX_SCOPES * 2)))) == MAX_SCOPES


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (401, {}, "token"),
        (401, {"www-authenticate": 'Bearer error="invalid_token"'}, "token"),
        (401, {"www-authenticate": 'DPoP error="use_dpop_nonce"', "dpop-nonce": "n"}, "nonce"),
        (401, {"www-authenticate": 'DPoP error="use_dpop_nonce"'}, "token"),
        (403, {"www-authenticate": 'Bearer error="insufficient_scope", scope="a"'}, "scopes"),
        (403, {"www-authenticate": 'Bearer error="other"'}, "other"),
        (403, {}, "other"),
        (500, {"www-authenticate": 'Bearer error="insufficient_scope"'}, "other"),
    ],
)
def test_a_refusal_says_what_the_login_lacks(status: int, headers: dict[str, str], kind: str) -> None:
    assert refusal_of(status, headers).kind == kind


def target(resource: tuple[str, ...] | None = None, server: tuple[str, ...] | None = None) -> Target:
    return Target(
        url="https://mcp.example/mcp",
        server=AuthorizationServer(
            issuer="https://as.example", token_endpoint="https://as.example/token", scopes_supported=server
        ),
        resource="https://mcp.example/mcp",
        resource_scopes=resource,
    )


@requirement("ID-upstream-scopes")
def test_the_challenge_goes_before_the_resource_and_both_before_nothing() -> None:
    challenge = Challenge(scheme="bearer", scopes=("a",))

    assert initial_scopes(target(("b",)), challenge) == ("a",)
    assert initial_scopes(target(("b", "c")), Challenge(scheme="bearer")) == ("b", "c")
    assert initial_scopes(target(), None) == ()
    assert initial_scopes(target(("b",)), challenge, configured=("mine",)) == ("mine",)


@requirement("ID-upstream-scopes")
def test_offline_access_is_asked_for_where_it_is_offered() -> None:
    assert initial_scopes(target(("a",), ("a", "offline_access")), None) == ("a", "offline_access")
    assert initial_scopes(target(("a",), ("a",)), None) == ("a",)
    assert initial_scopes(target(None, ("offline_access",)), None) == ()


def tokens(*scopes: str) -> Tokens:
    return Tokens(access_token="t", scopes=scopes, issuer="https://as.example", client_id="c")


@requirement("ID-upstream-step-up")
def test_a_step_up_asks_for_all_it_had_and_what_is_missing() -> None:
    challenge = Challenge(scheme="bearer", scopes=("write",))

    assert stepped_up_scopes(tokens("read"), challenge, attempts=0, where="mcp.example") == ("read", "write")
    assert stepped_up_scopes(tokens("read"), challenge, attempts=0, where="mcp.example", asked=("x",)) == (
        "read",
        "x",
        "write",
    )


@requirement("ID-upstream-step-up")
@pytest.mark.parametrize(
    ("held", "wanted", "attempts", "says"),
    [
        (("admin",), ("admin",), 0, "but it has them"),
        (("read",), (), 0, "but not which"),
        (("read",), ("admin",), 2, "after 2 logins in a row"),
    ],
)
def test_a_step_up_ends_where_another_login_does_not_help(
    held: tuple[str, ...], wanted: tuple[str, ...], attempts: int, says: str
) -> None:
    challenge = Challenge(scheme="bearer", scopes=wanted)

    with pytest.raises(StepUpRefused, match=says):
        stepped_up_scopes(tokens(*held), challenge, attempts=attempts, where="mcp.example")
