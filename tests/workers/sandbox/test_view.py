"""What a sandbox shows, worked out from paths alone."""

from pathlib import Path
from typing import Any

import pytest

from jackfield.workers.sandbox.view import ViewSpec, build_view, private_home
from jackfield.workers.supervision.messages import Mount


def view(**wished: Any) -> dict[str, Mount]:
    nothing: dict[str, Any] = {"readable": (), "writable": (), "hidden": (), "sockets": {}, "home": "/tmp"}
    return {mount["at"]: mount for mount in build_view(ViewSpec(**nothing | wished, user=7, group=8))}


def test_a_folder_comes_before_what_is_shown_in_it_and_links_come_last(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "way").symlink_to("a")
    order = list(view(readable=(inner, tmp_path / "way"), writable=(inner,)))
    assert order.index("/tmp") < order.index(str(tmp_path / "a")) < order.index(str(inner))
    assert order.index(str(inner)) < order.index(str(tmp_path / "way"))


def test_what_comes_with_its_folder_is_not_shown_twice(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to("b")
    seen = view(readable=(tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "link"))
    assert [at for at in seen if at.startswith(str(tmp_path))] == [str(tmp_path / "a")]


def test_hidden_is_hidden_also_where_it_is_wished_for_but_a_longer_wish_is_kept(tmp_path: Path) -> None:
    data, inner, config = tmp_path / "data", tmp_path / "data" / "inner", tmp_path / "jackfield.toml"
    inner.mkdir(parents=True)
    config.write_text("")
    seen = view(readable=(tmp_path, data, inner), hidden=(data, config, tmp_path / "missing"))
    kinds = {at: mount["kind"] for at, mount in seen.items() if at.startswith(str(tmp_path))}
    assert kinds == {str(tmp_path): "read", str(data): "empty", str(inner): "read", str(config): "device"}


def test_what_is_not_shown_need_not_be_hidden(tmp_path: Path) -> None:
    assert str(tmp_path) not in view(hidden=(tmp_path,))


@pytest.mark.parametrize(
    ("env", "home"),
    [
        ({"HOME": "/home/ada"}, "/home/ada"),
        ({"HOME": "/root"}, "/root"),
        ({"HOME": "/"}, "/tmp"),
        ({"HOME": "relative"}, "/tmp"),
        ({"HOME": "/home/../etc"}, "/tmp"),
        ({"HOME": "/usr/home"}, "/tmp"),
        ({}, "/tmp"),
    ],
)
def test_home_is_where_the_program_looks_for_it_if_that_is_a_place_for_one(env: dict[str, str], home: str) -> None:
    assert private_home(env) == home


def test_home_and_temporary_folder_are_private_and_the_user_has_a_name() -> None:
    seen = view(home="/home/ada")
    assert [at for at, mount in seen.items() if mount["kind"] == "private"] == ["/dev/shm", "/home/ada", "/tmp"]
    assert seen["/etc/passwd"]["source"] == "user:x:7:8::/home/ada:/bin/sh\n"


def test_a_home_that_is_to_be_read_is_read(tmp_path: Path) -> None:
    assert view(home=str(tmp_path), readable=(tmp_path,))[str(tmp_path)]["kind"] == "read"


def test_nothing_of_the_machine_is_shown_but_programs_and_harmless_settings() -> None:
    seen = set(view())
    assert "/usr" in seen
    assert seen.isdisjoint({"/", "/etc", "/home", "/root", "/var", "/run", "/sys", "/etc/shadow", "/etc/ssl"})
