"""What the settings of a source made at run time come to: checked as those of the config, with secrets in their place.

Above: `run_time.py`. Below: the settings, and each kind's own check.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from jackfield.errors import BadRequest, ConfigError, Forbidden
from jackfield.settings import Settings
from jackfield.settings.loading import check_sampling
from jackfield.settings.tools import SourceSettings, parse_source
from jackfield.settings.variables import HIDDEN_VALUE, expanded, hidden_in, variables_in
from jackfield.sources.base import Source

NEEDS_COMMANDS = (
    "This source starts a process or reads files where the gateway runs. Administrators may make such sources only "
    "with commands = true in [admin] in the config."
)
_REMOTE_KINDS = frozenset({"mcp", "openapi", "manifest"})
_LOCAL_OPTIONS = frozenset({"command", "args", "env", "cwd", "file", "sandbox", "options"})
_LOCAL_LOGIN = frozenset({"token_file", "private_key"})
_IN_THEIR_PLACE = ("https://unset.example", "unset")
_REMOTE_TRANSPORTS = frozenset({None, "", "http", "streamable-http", "sse"})


class Described(Struct, frozen=True):
    """What a stored source comes to at this gateway."""

    settings: SourceSettings
    fault: str | None = None
    """Why it cannot run."""


class SettingsReader:
    """Reads the settings of such sources, under the config's terms and with the secrets there are now."""

    def __init__(
        self,
        settings: Settings,
        *,
        value: Callable[[str], str | None],
        why_unset: Callable[[str], str | None],
    ) -> None:
        """`value`: of a secret, as such a source may have it; `why_unset`: why one that is set has none here."""
        self._settings = settings
        self._value = value
        self._why_unset = why_unset

    def apply(self, settings: Settings) -> None:
        """The terms of another config from now on."""
        self._settings = settings

    def described(self, name: str, raw: Mapping[str, Any]) -> Described:
        """What they come to. Never raises: what cannot run is described as that."""
        if self._needs_commands(raw):
            return _unusable(name, raw, NEEDS_COMMANDS)
        try:
            settings = parse_source(name, self._expanded(name, raw), None, folder=self._settings.folder)
            check_sampling(self._settings, settings, where=f"sources.{name}")
        except ConfigError as fault:
            return _unusable(name, raw, fault.message)
        return Described(settings)

    def check(self, name: str, raw: Mapping[str, Any], *, make: Callable[[SourceSettings], Source]) -> None:
        """Raises `Forbidden` or `BadRequest` for what could not run whatever its secrets are."""
        if (key := hidden_in(raw)) is not None:
            raise BadRequest(HIDDEN_VALUE.format(key=key), param=key)
        if not isinstance(raw.get("kind"), str):
            raise BadRequest('A source needs a kind, for example "kind": "mcp".', param="kind")
        if self._needs_commands(raw):
            raise Forbidden(NEEDS_COMMANDS)
        described = self.described(name, raw)
        if described.fault is not None and all(self._value(one) is not None for one in variables_in(raw)):
            raise BadRequest(described.fault)
        try:
            if described.fault is None:
                make(described.settings)
            else:
                self._check_all_else(name, raw, make)
        except ConfigError as fault:
            raise BadRequest(fault.message) from None

    def _check_all_else(self, name: str, raw: Mapping[str, Any], make: Callable[[SourceSettings], Source]) -> None:
        """What its secrets will be is not known, so it is checked with something in their place: a word, or a URL."""
        for number, value in enumerate(_IN_THEIR_PLACE, start=1):
            try:
                filled = expanded(dict(raw), lambda *_, value=value: value)
                make(parse_source(name, filled, None, folder=self._settings.folder))
            except ConfigError:
                if number == len(_IN_THEIR_PLACE):
                    raise
            else:
                return

    def _expanded(self, name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
        def lookup(variable: str, key: str) -> str:
            value = self._value(variable)
            if value is None and (why := self._why_unset(variable)) is not None:
                raise ConfigError(f"sources.{name}.{key} uses ${{{variable}}}, which cannot be read here: {why}")
            if value is None:
                raise ConfigError(
                    f"sources.{name}.{key} uses ${{{variable}}}, which is not set. Set it with 'jackfield secrets set "
                    f"{variable}' (PUT /api/v1/secrets/{variable}), or name it in secrets in [admin] in the config."
                )
            return value

        found: dict[str, Any] = expanded(dict(raw), lookup)
        return found

    def _needs_commands(self, raw: Mapping[str, Any]) -> bool:
        """Whether it would start a process, or read a file, and may not."""
        if self._settings.admin.commands:
            return False
        if raw.get("kind") not in _REMOTE_KINDS or any(key in raw for key in _LOCAL_OPTIONS):
            return True
        oauth = raw.get("oauth")
        if isinstance(oauth, dict) and any(key in oauth for key in _LOCAL_LOGIN):
            return True
        return raw.get("kind") == "mcp" and raw.get("transport") not in _REMOTE_TRANSPORTS


def _unusable(name: str, raw: Mapping[str, Any], fault: str) -> Described:
    return Described(SourceSettings(name=name, kind=str(raw.get("kind", "")), options={}), fault)
