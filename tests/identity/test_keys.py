"""The keyring: whose key it is, the key made at first start, and the codes of login links."""

import os
import stat
from pathlib import Path

import pytest

from jackfield.errors import ConfigError
from jackfield.identity.keys import CODE_LIFETIME, Keyring, digest_of
from jackfield.model.principal import Principal
from jackfield.settings import KeySettings, Secrets, Settings
from tests.clock import Clock
from tests.requirement import requirement


def settings(
    folder: Path, *, env: dict[str, str] | None = None, admin_key: bool = True, **keys: KeySettings
) -> Settings:
    return Settings(
        path=None,
        folder=folder,
        data=folder / "data",
        store_url="memory:",
        keys=keys,
        admin_key=admin_key,
        secrets=Secrets(env or {}, {}),
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_of_the_config_is_its_principal_with_scopes_and_limits(tmp_path: Path) -> None:
    keyring = Keyring.from_settings(settings(tmp_path, ops=KeySettings(key="k1", scopes=("read",), tools=("a*",))))
    assert keyring.find("k1") == Principal(name="ops", scopes=frozenset({"read"}), tools=("a*",))
    assert keyring.find(b"k1") == keyring.named("ops")
    assert keyring.find("k2") is None
    assert keyring.key_file is None
    assert not (tmp_path / "data").exists()


def test_the_environment_gives_the_key_of_the_administrator(tmp_path: Path) -> None:
    keyring = Keyring.from_settings(settings(tmp_path, env={"JACKFIELD_ADMIN_KEY": "top"}))
    principal = keyring.find("top")
    assert principal is not None
    assert principal.name == "admin"
    assert principal.is_admin
    assert not (tmp_path / "data").exists()


@requirement("CON-key-first-start")
def test_without_any_key_one_is_made_that_only_its_owner_can_read_and_kept(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        first = Keyring.from_settings(settings(tmp_path))
    finally:
        os.umask(old_mask)
    path = tmp_path / "data" / "admin.key"
    key = path.read_text().strip()
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert len(key) > 32
    assert first.key_file == path
    found = first.find(key)
    assert found is not None
    assert found.is_admin
    assert Keyring.from_settings(settings(tmp_path)).find(key) == found
    assert path.read_text().strip() == key


def test_a_kept_key_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "data" / "admin.key"
    path.parent.mkdir()
    path.write_text("kept\n")
    path.chmod(0o644)
    assert Keyring.from_settings(settings(tmp_path)).find("kept") is not None
    assert mode(path) == 0o600


def test_an_empty_key_file_stops_the_start_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin.key").write_text("\n")
    with pytest.raises(ConfigError, match=r"admin\.key is empty\. Delete it"):
        Keyring.from_settings(settings(tmp_path))


def test_a_data_folder_that_cannot_be_made_stops_the_start_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigError, match="JACKFIELD_DATA"):
        Keyring.from_settings(settings(tmp_path))


def test_two_names_for_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"auth\.keys\.b\.key is also the key of 'a'"):
        Keyring.from_settings(settings(tmp_path, a=KeySettings(key="k"), b=KeySettings(key="k")))


def test_a_configured_admin_of_lower_rank_is_not_mixed_up_with_the_environments(tmp_path: Path) -> None:
    lower = KeySettings(key="k", scopes=("read",))
    with pytest.raises(ConfigError, match=r"belongs to 'admin', and so does auth\.keys\.admin"):
        Keyring.from_settings(settings(tmp_path, env={"JACKFIELD_ADMIN_KEY": "top"}, admin=lower))


def test_the_link_signs_in_an_administrator_if_there_is_one(tmp_path: Path) -> None:
    reader, chief = KeySettings(key="r", scopes=("read",)), KeySettings(key="c", scopes=("admin",))
    assert Keyring.from_settings(settings(tmp_path, reader=reader, chief=chief)).host.principal.name == "chief"
    assert Keyring.from_settings(settings(tmp_path, reader=reader)).host.principal.name == "reader"


def test_a_code_signs_in_once() -> None:
    keyring = Keyring({digest_of("k"): Principal(name="a", scopes=frozenset({"read"}))})
    code = keyring.new_code(keyring.host)
    assert keyring.take_code(code) == keyring.host
    assert keyring.take_code(code) is None
    assert keyring.take_code("made up") is None


def test_a_code_is_worth_nothing_after_ten_minutes() -> None:
    clock = Clock(0.0)
    keyring = Keyring({digest_of("k"): Principal(name="a", scopes=frozenset({"read"}))}, clock=clock)
    code = keyring.new_code(keyring.host)
    clock.now = CODE_LIFETIME
    assert keyring.take_code(code) is None


@requirement("CON-key-admin-file-stays")
def test_the_key_that_was_made_stays_valid_beside_configured_ones_unless_the_config_says_no(tmp_path: Path) -> None:
    Keyring.from_settings(settings(tmp_path))
    made = (tmp_path / "data" / "admin.key").read_text().strip()
    other = KeySettings(key="k", scopes=("call",))
    beside = Keyring.from_settings(settings(tmp_path, env={"JACKFIELD_ADMIN_KEY": "top"}, other=other))
    found = beside.find(made)
    assert found is not None
    assert found.is_admin
    assert beside.find("k") is not None
    assert beside.find("top") == found
    assert beside.key_file == tmp_path / "data" / "admin.key"
    without = Keyring.from_settings(settings(tmp_path, admin_key=False, other=other))
    assert without.find(made) is None
    assert without.key_file is None


def test_a_gateway_that_nobody_could_use_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"auth\.admin_key is false and there is no other key"):
        Keyring.from_settings(settings(tmp_path, admin_key=False))


@requirement("CON-key-rotation-ends-logins")
def test_a_key_is_held_by_its_digest_and_its_name_together(tmp_path: Path) -> None:
    keyring = Keyring.from_settings(settings(tmp_path, a=KeySettings(key="ka"), b=KeySettings(key="kb")))
    assert keyring.holder(digest_of("ka"), name="a") == keyring.named("a")
    assert keyring.holder(digest_of("ka"), name="b") is None, "the key has another owner now"
    assert keyring.holder(digest_of("old"), name="a") is None, "the key was changed"
    lent = Principal(name="session:1", scopes=frozenset({"session:1"}))
    keyring.lend("for a while", lent)
    assert keyring.holder(digest_of("for a while"), name="session:1") is None, "no login can be made of it"
