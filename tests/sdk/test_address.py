from pathlib import Path

import pytest

from jackfield.errors import ConfigError
from jackfield.sdk.address import DEFAULT_URL, Address, find_address, is_loopback
from tests.requirement import requirement


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "admin.key").write_text("jf_local\nthe second line is nothing\n")
    return tmp_path


def test_what_is_given_wins_over_the_environment() -> None:
    env = {"JACKFIELD_URL": "http://elsewhere:1", "JACKFIELD_KEY": "other"}
    assert find_address("http://here:2/", "mine", environment=env) == Address(url="http://here:2", key="mine")


@requirement("CON-env")
def test_the_environment_names_url_and_key() -> None:
    env = {"JACKFIELD_URL": "https://elsewhere/base/", "JACKFIELD_KEY": "other"}
    assert find_address(None, None, environment=env) == Address(url="https://elsewhere/base", key="other")


@requirement("CON-env")
def test_the_local_gateway_and_the_key_in_its_data_folder_are_the_default(data: Path) -> None:
    assert find_address(None, None, environment={"JACKFIELD_DATA": str(data)}) == Address(
        url=DEFAULT_URL, key="jf_local"
    )


def test_the_admin_key_of_the_environment_opens_the_local_gateway(data: Path) -> None:
    env = {"JACKFIELD_DATA": str(data), "JACKFIELD_ADMIN_KEY": "boss"}
    assert find_address(None, None, environment=env).key == "boss"


@pytest.mark.parametrize("url", ["http://gateway.example:8420", "https://10.0.0.1", "http://127.0.0.1.example"])
def test_the_local_key_is_never_offered_to_another_machine(url: str, data: Path) -> None:
    env = {"JACKFIELD_DATA": str(data), "JACKFIELD_ADMIN_KEY": "boss"}
    assert find_address(url, None, environment=env).key is None


def test_without_a_key_file_there_is_no_key(tmp_path: Path) -> None:
    assert find_address(None, None, environment={"JACKFIELD_DATA": str(tmp_path)}).key is None
    (tmp_path / "admin.key").write_bytes(b"")
    assert find_address(None, None, environment={"JACKFIELD_DATA": str(tmp_path)}).key is None


@pytest.mark.parametrize("url", ["127.0.0.1:8420", "gateway", "ftp://x", "http://", "http://x:y", "http://[::1"])
def test_half_a_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match=DEFAULT_URL):
        find_address(url, "k", environment={})


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.8.9.1", "http://[::1]:8420", "http://LocalHost:1"])
def test_loopback_is_known_in_every_spelling(url: str) -> None:
    assert is_loopback(url)


def test_the_key_shows_in_no_repr() -> None:
    assert "secret-key" not in repr(Address(url=DEFAULT_URL, key="secret-key"))
