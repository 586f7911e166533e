import pytest

from jackfield.outgoing import OutgoingBadAnswer
from jackfield.outgoing.client import OUR_HEADERS, OutgoingRequest, redirected
from jackfield.outgoing.urls import target_of

HERE = "http://here.example/start"
SECRETS = {"Authorization": "Bearer k", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/x"}


def request(method: str = "POST", content: bytes | None = b'{"a":1}', url: str = HERE) -> OutgoingRequest:
    target = target_of(url)
    assert target is not None
    return OutgoingRequest(method, target, {**SECRETS, "Content-Type": "application/json"}, content)


@pytest.mark.parametrize(
    ("status", "method", "becomes", "keeps_body"),
    [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
        (301, "PUT", "PUT", True),
        (302, "PATCH", "PATCH", True),
        (303, "PUT", "GET", False),
        (303, "DELETE", "GET", False),
        (307, "DELETE", "DELETE", True),
        (303, "HEAD", "HEAD", True),
        (302, "GET", "GET", True),
    ],
)
def test_a_redirects_status_decides_method_and_body(
    status: int, method: str, becomes: str, *, keeps_body: bool
) -> None:
    after = redirected(request(method), status=status, location="/next")

    assert (after.method, after.content) == (becomes, b'{"a":1}' if keeps_body else None)
    assert after.headers.get("Content-Type") == ("application/json" if keeps_body else None)


def test_on_the_same_origin_every_header_stays() -> None:
    after = redirected(request(), status=307, location="http://HERE.example:80/next")

    assert after.target.url == "http://here.example/next"
    assert {name: after.headers[name] for name in SECRETS} == SECRETS


@pytest.mark.parametrize(
    "location",
    [
        "http://there.example/next",
        "//there.example/next",
        "http://here.example:8080/next",
        "https://here.example/next",
        "http://sub.here.example/next",
    ],
)
@pytest.mark.parametrize("status", [302, 307])
def test_to_another_origin_go_only_our_own_headers(location: str, status: int) -> None:
    after = redirected(request(), status=status, location=location)

    body = {"Content-Type": "application/json"} if status == 307 else {}
    assert after.headers == {**OUR_HEADERS, **body}


def test_from_https_to_http_no_header_is_kept() -> None:
    after = redirected(request(url="https://here.example/"), status=307, location="http://here.example/")

    assert set(after.headers) == {*OUR_HEADERS, "Content-Type"}


@pytest.mark.parametrize("location", ["next?b=2", "./next?b=2", "/next?b=2", "../next?b=2#part"])
def test_a_relative_location_starts_where_the_request_went(location: str) -> None:
    assert redirected(request(), status=302, location=location).target.url == "http://here.example/next?b=2"


def test_a_user_in_a_location_is_not_used() -> None:
    after = redirected(request(), status=302, location="http://me:secret@there.example/")

    assert after.target.url == "http://there.example/"
    assert "Authorization" not in after.headers


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://there.example/", "http://there.example:0/", "http://[/"]
)
def test_a_location_that_http_cannot_reach_is_a_bad_answer(location: str) -> None:
    with pytest.raises(OutgoingBadAnswer, match=r"^http://here\.example redirected to nowhere\. "):
        redirected(request(), status=302, location=location)
