"""`[[hooks]]`: what is asked before and after calls."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.settings.notify import check_webhook_secret

TIMEOUT_MS = 2_000
LONGEST_TIMEOUT_MS = 60_000


class HookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of `[[hooks]]`. It is at a `url`, a function of a `python` file, or a package's (`use`)."""

    on: Literal["before_call", "after_call"]
    """Before or after the call."""
    tools: tuple[str, ...] = ("*",)
    """Names, globs or `source:*`; an empty list means none."""
    url: str | None = None
    """A service that is asked by POST."""
    python: str | None = None
    """`FILE.py:FUNCTION`, relative to the config."""
    use: str | None = None
    """The name under which an installed package offers it."""
    name: str | None = None
    """Made from where it is, if left out."""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST_TIMEOUT_MS)] = TIMEOUT_MS
    """Milliseconds."""
    on_failure: Literal["deny", "allow"] = "deny"
    """What happens to a call whose hook fails; after a call, `deny` withholds the result."""
    secret: str | None = None
    """Signs the requests to `url` (Standard Webhooks): `whsec_` and base64."""
    env: dict[str, str] = {}
    """Environment variables of a `python` hook, or of a package's."""
    options: dict[str, Any] = {}
    """Given to it with every event."""

    @property
    def title(self) -> str:
        """Its name, or one made from where it is."""
        if self.name is not None:
            return self.name
        if self.python is not None:
            return self.python.rpartition(":")[2]
        if self.use is not None:
            return self.use
        parts = urlsplit(self.url or "")
        return f"{parts.hostname}{parts.path.rstrip('/')}"

    @property
    def origin(self) -> str:
        """Where it is, as the operator wrote it."""
        if self.python is not None:
            return self.python
        if self.use is not None:
            return f"package: {self.use}"
        parts = urlsplit(self.url or "")
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def check_hooks(hooks: Iterable[HookSettings], *, where: str) -> None:
    """Raise `ConfigError` for entries that fit their types and still make no sense."""
    seen: set[tuple[str, str]] = set()
    for number, hook in enumerate(hooks):
        place = f"{where}: hooks[{number}]"
        given = [key for key in ("url", "python", "use") if getattr(hook, key) is not None]
        if len(given) != 1:
            said = "has none of url, python and use" if not given else f"has {' and '.join(given)}"
            raise ConfigError(f"{place} {said}. Give exactly one of url, python and use.")
        if hook.url is not None and not _is_url(hook.url):
            raise ConfigError(f"{place}.url is not a full URL. Write https://host[:port]/path.")
        if hook.python is not None and not all(hook.python.rpartition(":")):
            raise ConfigError(f'{place}.python is {hook.python!r}. Write python = "FILE.py:FUNCTION".')
        if hook.secret is not None and hook.url is None:
            raise ConfigError(f"{place} has a secret, which only signs requests to a url. Remove it.")
        if hook.secret is not None:
            check_webhook_secret(hook.secret, where=f"{place}.secret")
        if hook.url is not None and (hook.env or hook.options):
            raise ConfigError(f"{place} has a url, so env and options reach nobody. Remove them.")
        if (hook.title, hook.on) in seen:
            raise ConfigError(
                f"{place}: another hook for {hook.on} is called '{hook.title}'. Give one of them another name."
            )
        seen.add((hook.title, hook.on))


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
