"""Secrets and variables in an imported config file: secrets become `${NAME}`, variables get our syntax.

Whether a value is a secret is a guess that errs on the side of secrecy.
"""

import re
from collections.abc import Sequence
from pathlib import Path

_SECRET_NAME = re.compile(
    r"(?i)(api.?key|access.?key|(^|[_-])key$|token|secret|passw(or)?d|passphrase|credential|auth(orization)?$|"
    r"bearer|cookie|(^|[_-])pat$|dsn$|connection.?string)"
)
_NOT_SECRET_NAME = re.compile(r"(?i)(file|path|dir|url|uri|host|port|name|id|type|limit|max.*tokens)$")
_SECRET_VALUE = re.compile(
    r"^(sk-|pk_|rk_|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ|ya29\.|npm_|pypi-|hf_|jf_|"
    r"lin_api_|ntn_|secret_|SG\.|dop_v1_|tvly-|shpat_)[A-Za-z0-9_./+=-]{8,}$"
)
_WITH_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^/@\s:]*:)(?P<secret>[^/@\s]+)(?P<after>@)")
_QUERY = re.compile(r"(?P<before>[?&](?P<name>[^=&#]+)=)(?P<secret>[^&#]+)")
_FLAG = re.compile(r"^(?P<before>--?(?P<name>[A-Za-z][\w-]*)=)(?P<secret>.+)$", re.DOTALL)
_PAIR = re.compile(
    r"^(?P<before>(?P<name>[A-Za-z][\w-]*)\s*[:=]\s*(?:(?:Bearer|Basic|Token) +)?)(?P<secret>.+)$",
    re.DOTALL | re.IGNORECASE,
)
_SCHEME = re.compile(r"^(?P<before>(?:Bearer|Basic|Token|token|bearer|basic) +)(?P<secret>\S.*)$")
_REFERENCE = re.compile(r"\$\{(?P<inner>[^}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_HTTP = re.compile(r"https?://", re.IGNORECASE)
_MIN_LENGTH = 6


class SecretReplacer:
    """Converts values and collects the variables that must be set for them."""

    def __init__(self, *, folder: Path) -> None:
        self.variables: dict[str, str] = {}
        """Name to purpose."""
        self.notes: list[str] = []
        self._values: dict[str, str] = {}
        self._places = {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": "/",
            "/": "/",
        }

    def plain(self, text: str) -> str:
        """A value that is not secret, with its variables in our syntax."""
        return _REFERENCE.sub(self._reference, text)

    def variable(self, source: str, name: str, value: str) -> str:
        """A variable of a server's environment."""
        if _has_reference(value):
            return self.plain(value)
        if _looks_secret(name, value):
            return self._replace(name, value, source=source, what=f"env.{name} of '{source}'")
        return self._address(source, name, value)

    def header(self, source: str, name: str, value: str) -> str:
        if _has_reference(value):
            return self.plain(value)
        scheme = _SCHEME.match(value)
        if scheme is None and not _looks_secret(name, value):
            return value
        before, secret = (scheme["before"], scheme["secret"]) if scheme else ("", value)
        return before + self._replace(
            f"{source}_{name}", secret, source=source, what=f"the header {name} of '{source}'"
        )

    def url(self, source: str, url: str) -> str:
        """A URL, whose query may contain a key."""

        def replace(found: re.Match[str]) -> str:
            if _has_reference(found["secret"]) or not _looks_secret(found["name"], found["secret"]):
                return found[0]
            what = f"'{found['name']}' in the url of '{source}'"
            return found["before"] + self._replace(
                f"{source}_{found['name']}", found["secret"], source=source, what=what
            )

        return self.plain(self._without_password(source, "the url", _QUERY.sub(replace, url)))

    def arguments(self, source: str, words: Sequence[str]) -> list[str]:
        """A command line. In `--token X`, `--token=X`, `TOKEN=X` and `Token: X` the name marks X as a secret."""
        taken: list[str] = []
        for place, word in enumerate(words):
            flag = words[place - 1].lstrip("-") if place and words[place - 1].startswith("-") else ""
            taken.append(self._argument(source, flag, word))
        return taken

    def _argument(self, source: str, flag: str, word: str) -> str:
        if _has_reference(word):
            return self.plain(word)
        joined = _FLAG.match(word) or _PAIR.match(word)
        if joined is not None and _looks_secret(joined["name"], joined["secret"]):
            name = joined["name"]
            wanted = name if name.isupper() else f"{source}_{name}"
            what = f"{name} in the arguments of '{source}'"
            return joined["before"] + self._replace(wanted, joined["secret"], source=source, what=what)
        if not word.startswith("-") and _looks_secret(flag, word):
            return self._replace(f"{source}_{flag or 'key'}", word, source=source, what=f"an argument of '{source}'")
        return self._address(source, "an argument", word)

    def _address(self, source: str, name: str, value: str) -> str:
        """A value that may be a URL with a key or a password."""
        return self.url(source, value) if _HTTP.match(value) else self._without_password(source, name, value)

    def _without_password(self, source: str, name: str, value: str) -> str:
        found = _WITH_PASSWORD.search(value)
        if found is None:
            return value
        what = f"the password in {name} of '{source}'"
        hidden = self._replace(f"{source}_password", found["secret"], source=source, what=what)
        return f"{value[: found.start('secret')]}{hidden}{value[found.end('secret') :]}"

    def _replace(self, wanted: str, value: str, *, source: str, what: str) -> str:
        """`${NAME}` for a value. If the name is taken by another value, it is prefixed with the source's name."""
        name = _as_variable(wanted)
        if self._values.get(name, value) != value:
            name = _as_variable(f"{source}_{wanted}")
        number = 2
        while self._values.get(name, value) != value:
            name = f"{_as_variable(f'{source}_{wanted}')}_{number}"
            number += 1
        self._values[name] = value
        self.variables.setdefault(name, what)
        return f"${{{name}}}"

    def _reference(self, found: re.Match[str]) -> str:
        inner = found["inner"]
        if inner in self._places:
            return self._places[inner]
        if inner.startswith("input:"):
            name = _as_variable(inner.removeprefix("input:"))
            self.variables.setdefault(name, f"the input '{inner.removeprefix('input:')}' in that file")
            return f"${{{name}}}"
        variable = _VARIABLE.fullmatch(inner)
        if variable is None:
            self.notes.append(f"{found[0]} is not supported and was left as it is.")
            return found[0]
        default = variable["default"]
        ending = f", with the default {default!r}" if default and not _looks_secret(variable["name"], default) else ""
        self.variables.setdefault(variable["name"], f"a variable in that file{ending}")
        return f"${{{variable['name']}}}"


def _has_reference(value: str) -> bool:
    return _REFERENCE.search(value) is not None


def _looks_secret(name: str, value: str) -> bool:
    if _SECRET_VALUE.match(value):
        return True
    if len(value) < _MIN_LENGTH or value.isdigit() or value.lower() in ("true", "false"):
        return False
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name)


def _as_variable(wanted: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", wanted).strip("_").upper()
    return name if name and not name[0].isdigit() else f"KEY_{name}".rstrip("_")
