"""The gateway's url and key: as given, from the environment, or from the local gateway's data folder."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from jackfield.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8420"
KEY_FILE = "admin.key"
URL_FILE = "gateway.json"


class _RunFile(Struct, frozen=True):
    """The file that a running gateway keeps in its data folder."""

    url: str


class Address(Struct, frozen=True, kw_only=True):
    """A gateway's url, without a trailing slash, and the key for it. The repr never shows the key."""

    url: str
    key: str | None

    def __repr__(self) -> str:
        return f"Address({self.url!r}, {'with' if self.key else 'without'} a key)"

    @property
    def is_local(self) -> bool:
        return is_loopback(self.url)


def find_address(url: str | None, key: str | None, *, environment: Mapping[str, str] | None = None) -> Address:
    """The given url and key, else `JACKFIELD_URL` and `JACKFIELD_KEY`, else the local gateway and its own key.

    The local gateway's key is only ever sent to this machine.
    """
    env = os.environ if environment is None else environment
    data = Path(env.get("JACKFIELD_DATA", ".jackfield"))
    found = checked_url(url or env.get("JACKFIELD_URL") or read_url(data) or DEFAULT_URL)
    given = key or env.get("JACKFIELD_KEY")
    if given is None and is_loopback(found):
        given = env.get("JACKFIELD_ADMIN_KEY") or read_key(data)
    return Address(url=found, key=given)


def checked_url(url: str) -> str:
    """The url without a trailing slash. Raises `ConfigError` for an invalid one."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ConfigError(f"The gateway's url {url!r} is not valid. Write it like {DEFAULT_URL}.")
    return url.rstrip("/")


def read_key(data: Path) -> str | None:
    """The key that the gateway with this data folder generated; None when it has none."""
    try:
        lines = (data / KEY_FILE).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return lines[0].strip() or None if lines else None


def read_url(data: Path) -> str | None:
    """The url of the gateway with this data folder; None when it is not running."""
    try:
        return msgspec.json.decode((data / URL_FILE).read_bytes(), type=_RunFile).url
    except (OSError, msgspec.DecodeError):
        return None


def is_loopback(url: str) -> bool:
    """Whether the url names this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
