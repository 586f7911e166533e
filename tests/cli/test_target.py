from argparse import Namespace
from pathlib import Path

import pytest

from jackfield.cli.target import accepts, find_target, local_key, local_url
from jackfield.settings import load_local
from tests.harness.process import free_port
from tests.sdk.server import refuses, says, serving

KEYS = """
[auth.keys.reader]
key = "reading"
scopes = ["read"]
[auth.keys.caller]
key = "calling"
scopes = ["call"]
[auth.keys.boss]
key = "ruling"
scopes = ["admin"]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("JACKFIELD_URL", "JACKFIELD_KEY", "JACKFIELD_DATA", "JACKFIELD_ADMIN_KEY", "JACKFIELD_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_the_widest_key_of_the_config_is_the_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jackfield.toml").write_text(KEYS, encoding="utf-8")
    assert local_key(load_local()) == "ruling"
    (tmp_path / "jackfield.toml").write_text(KEYS[: KEYS.index("[auth.keys.boss]")], encoding="utf-8")
    assert local_key(load_local()) == "calling"
    monkeypatch.setenv("JACKFIELD_ADMIN_KEY", "from outside")
    assert local_key(load_local()) == "from outside"


def test_without_configured_keys_the_key_file_is_the_local_one(tmp_path: Path) -> None:
    assert local_key(load_local()) is None
    (tmp_path / ".jackfield").mkdir()
    (tmp_path / ".jackfield" / "admin.key").write_text("jf_made\n", encoding="utf-8")
    assert local_key(load_local()) == "jf_made"


def test_where_the_gateway_says_it_runs_wins_over_the_config(tmp_path: Path) -> None:
    assert local_url(load_local()) == "http://127.0.0.1:8420"
    (tmp_path / ".jackfield").mkdir()
    note = tmp_path / ".jackfield" / "gateway.json"
    note.write_text('{"url": "http://127.0.0.1:9999", "pid": 1}', encoding="utf-8")
    assert local_url(load_local()) == "http://127.0.0.1:9999"
    note.write_text("half a no", encoding="utf-8")
    assert local_url(load_local()) == "http://127.0.0.1:8420"


async def test_only_a_gateway_that_takes_the_key_counts_as_the_one() -> None:
    with serving() as server:
        path = "/api/v1/tools/search"
        server.on(path, says({"tools": []}))
        assert await accepts(server.url, "k")
        assert not await accepts(server.url, None)
        server.on(path, refuses(401, "unauthenticated"))
        assert not await accepts(server.url, "k")
        server.on(path, says("another program", status=404))
        assert not await accepts(server.url, "k")
        server.on(path, refuses(503, "not_ready"))
        assert await accepts(server.url, "k")
    assert not await accepts(f"http://127.0.0.1:{free_port()}", "k")


async def test_a_wrong_key_for_the_running_gateway_starts_no_second_one(tmp_path: Path) -> None:
    (tmp_path / "jackfield.toml").write_text(KEYS, encoding="utf-8")
    (tmp_path / ".jackfield").mkdir()
    wrong = Namespace(url=None, key="wrong", config=None)
    with serving() as server:
        note = f'{{"url": "{server.url}", "pid": 1}}'
        (tmp_path / ".jackfield" / "gateway.json").write_text(note, encoding="utf-8")
        path = "/api/v1/tools/search"
        server.on(path, refuses(401, "unauthenticated"), says({"tools": []}))
        assert (await find_target(wrong, in_process=True)).in_process is None
        server.on(path, refuses(401, "unauthenticated"))  # another project's gateway
        assert (await find_target(wrong, in_process=True)).in_process is not None
