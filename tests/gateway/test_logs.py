"""Log lines: two formats, and no secret in either."""

import io
import json
import logging
import sys

import pytest

from jackfield.errors import Unavailable
from jackfield.gateway.logs import JsonLines, TextLines, set_up_logging


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("jackfield.x").makeRecord("jackfield.x", logging.WARNING, "f.py", 1, message, args, None)
    made.__dict__.update(extra)
    return made


def test_a_text_line_has_time_level_place_and_words() -> None:
    line = TextLines(tuple).format(record("%s is down", "acme"))
    clock, rest = line.split(" ", 1)
    assert clock.count(":") == 2
    assert rest == "warning jackfield.x: acme is down"


def test_a_json_line_is_one_object_with_the_extras() -> None:
    line = JsonLines(tuple).format(record("%s is\ndown", "acme", source="acme"))
    assert "\n" not in line
    entry = json.loads(line)
    assert entry.pop("time").endswith("Z")
    assert entry == {"level": "warning", "logger": "jackfield.x", "message": "acme is\ndown", "source": "acme"}


@pytest.mark.parametrize("lines", [TextLines, JsonLines])
def test_no_line_shows_a_secret_wherever_it_stands(lines: type[TextLines] | type[JsonLines]) -> None:
    secret = 'pass"word\\1'
    made = record(f"got {secret}", note=secret)
    fault = ValueError(secret)
    made.exc_info = (ValueError, fault, None)
    text = lines(lambda: [secret]).format(made)
    assert "[redacted]" in text
    assert secret not in text
    assert json.dumps(secret)[1:-1] not in text


@pytest.mark.parametrize("lines", [TextLines, JsonLines])
def test_what_is_away_has_a_sentence_and_a_fault_of_ours_a_traceback(lines: type[TextLines] | type[JsonLines]) -> None:
    texts = []
    for fault in (Unavailable("The database is away."), KeyError("ours")):
        try:
            raise fault  # noqa: TRY301 - for its traceback
        except Exception:  # noqa: BLE001 - whatever it is
            made = record("could not be read")
            made.exc_info = sys.exc_info()
            texts.append(lines(tuple).format(made))
    assert "The database is away." in texts[0]
    assert "Traceback" not in texts[0]
    assert "Traceback" in texts[1]


def test_half_a_surrogate_pair_does_not_stop_a_line() -> None:
    assert json.loads(JsonLines(tuple).format(record("a \ud800 b")))["message"] == "a ? b"


def test_set_up_sends_every_logger_to_the_one_stream() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    try:
        set_up_logging("json", stream=stream)
        logging.getLogger("anything").info("hello")
    finally:
        for handler in root.handlers[:]:
            root.removeHandler(handler)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)
    assert json.loads(stream.getvalue())["message"] == "hello"
