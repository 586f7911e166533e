from typing import Any

import pytest

from jackfield.errors import ConfigError
from jackfield.model.tool import HttpExecution, Tool
from jackfield.outgoing.urls import parse_url
from jackfield.sources.http import HttpMessage, Unfillable, message_of, template_of


def message(url: str, method: str = "GET", /, **arguments: Any) -> HttpMessage:
    tool = Tool(source="http", name="t", execution=HttpExecution(url=url, method=method))
    return message_of(template_of(tool), arguments)


@pytest.mark.parametrize("method", ["GET", "get", "HEAD", "DELETE"])
def test_without_a_body_arguments_are_the_query(method: str) -> None:
    sent = message(
        "https://a.example/x",
        method,
        text="a b",
        number=1.5,
        whole=3,
        yes=True,
        no=False,
        none=None,
        many=["a", 2, True, None, [1, 2]],
        empty=[],
        thing={"k": [1, None]},
    )

    assert sent.json is None
    assert sent.params == (
        ("text", "a b"),
        ("number", "1.5"),
        ("whole", "3"),
        ("yes", "true"),
        ("no", "false"),
        ("many", "a"),
        ("many", "2"),
        ("many", "true"),
        ("many", "[1,2]"),
        ("thing", '{"k":[1,null]}'),
    )


@pytest.mark.parametrize("method", ["POST", "put", "PATCH", "OPTIONS"])
def test_with_a_body_arguments_are_its_json(method: str) -> None:
    assert message("https://a.example/x", method, a=None, b=[1]) == HttpMessage(
        url="https://a.example/x", json={"a": None, "b": [1]}
    )


def test_an_argument_does_not_set_a_parameter_that_the_url_sets() -> None:
    assert message("https://a.example/x?tenant=5&key=", tenant="6", key="k", q="1").params == (("q", "1"),)


def test_a_place_in_the_url_is_filled_and_its_argument_not_sent_again() -> None:
    sent = message("https://a.example/{city}/days/{n}?u={units}#x", "POST", city="São Paulo", n=3, units="a&b", more=1)

    assert sent.url == "https://a.example/S%C3%A3o%20Paulo/days/3?u=a%26b"
    assert sent.json == {"more": 1}


def test_a_place_in_the_query_may_stay_empty() -> None:
    assert message("https://a.example/x?u={units}&v={v}", v=None).url == "https://a.example/x?u=&v="


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("a/b", "a%2Fb"),
        ("a\\b", "a%5Cb"),
        ("?admin=1", "%3Fadmin%3D1"),
        ("#x", "%23x"),
        ("@evil.example", "%40evil.example"),
        ("//evil.example/", "%2F%2Fevil.example%2F"),
        ("%2e%2e", "%252e%252e"),
        ("a\r\nb", "a%0D%0Ab"),
        ("{other}", "%7Bother%7D"),
        ("...", "..."),
    ],
)
def test_an_argument_stays_within_its_place(value: str, encoded: str) -> None:
    sent = message("https://a.example/items/{id}/show", id=value)

    assert sent.url == f"https://a.example/items/{encoded}/show"
    assert parse_url(sent.url).raw_path == f"/items/{encoded}/show".encode()
    assert parse_url(sent.url).raw_host == b"a.example"


@pytest.mark.parametrize("value", [".", "..", "../admin", "..\\admin", "a/../../admin", "a/.", "./a"])
def test_an_argument_cannot_climb_out_of_its_place(value: str) -> None:
    with pytest.raises(Unfillable, match=r"'id' is part of this tool's url and cannot hold '\.' or '\.\.'"):
        message("https://a.example/items/{id}", id=value)


@pytest.mark.parametrize("arguments", [{}, {"id": None}, {"id": ""}])
def test_a_place_in_the_path_needs_a_value(arguments: dict[str, Any]) -> None:
    with pytest.raises(Unfillable) as refused:
        message("https://a.example/items/{id}", **arguments)

    assert refused.value.code == "invalid_arguments"
    assert str(refused.value) == (
        "The argument 'id' is part of this tool's url and cannot be left empty. Give it a value."
    )


@pytest.mark.parametrize(
    ("execution", "sentence"),
    [
        (None, "it is called over HTTP and needs a url."),
        (HttpExecution(url="a.example/x"), "execution.url is invalid. The url 'a.example/x' is not an http or https"),
        (HttpExecution(url="file:///etc/passwd"), "execution.url is invalid."),
        (HttpExecution(url="https://a.example:0/"), "execution.url is invalid."),
        (HttpExecution(url="https://{host}/x"), "execution.url has a {place} in its host."),
        (HttpExecution(url="https://a.example:{port}/x"), "execution.url has a {place} in its host."),
        (HttpExecution(url="https://{user}@a.example/x"), "execution.url has a {place} in its host."),
        (HttpExecution(url="https://a.example", method="G E T"), "execution.method is 'G E T'."),
        (HttpExecution(url="https://a.example", method=""), "execution.method is ''."),
        (HttpExecution(url="https://a.example", headers={"a b": "c"}), "execution.headers has 'a b'"),
        (HttpExecution(url="https://a.example", headers={"Content-Length": "3"}), "execution.headers has 'Content-Le"),
        (HttpExecution(url="https://a.example", headers={"x": "hunter22\n"}), "the value of the header 'x' has a char"),
    ],
)
def test_an_execution_that_cannot_be_used_is_a_config_error_with_the_tools_name(
    execution: HttpExecution | None, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        template_of(Tool(source="http", name="fetchWeather", execution=execution))

    assert str(refused.value).startswith(f"The tool 'fetchWeather' in [[tools]]: {sentence}")
    assert "hunter22" not in str(refused.value)
