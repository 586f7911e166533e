"""The page where the console was not built."""

import pytest

from jackfield.console import api as console
from jackfield.http.response import BytesResponse


async def test_without_a_built_console_the_page_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_read", lambda _name: None)
    answer = await console.ConsoleApi(None).show_page(None)  # type: ignore[arg-type]  # it does not look at the request
    assert isinstance(answer, BytesResponse)
    assert answer.status == 200
    assert b"make console" in answer.body
