"""The model that the environment names, so that a project written for a script runs on a real one, unchanged.

Above: `settings.py`, which reads the rest. Below: nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jackfield.errors import ConfigError

DEFAULT_MODEL = "default"
URL, NAME, KEY = "JACKFIELD_MODEL_URL", "JACKFIELD_MODEL", "JACKFIELD_MODEL_KEY"


def with_environment_model(
    tables: Mapping[str, dict[str, Any]], environment: Mapping[str, str], *, secret: Callable[[str], str | None]
) -> dict[str, dict[str, Any]]:
    """The tables under `[models]`, with `default` as the environment says; agents that name no model think with it."""
    url = environment.get(URL)
    if not url:
        if environment.get(NAME):
            raise ConfigError(f"{URL} is not set, though {NAME} is. Set both, or describe the model under [models].")
        return dict(tables)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{URL} is {url!r}, which is not a full url. Write http://host[:port]/v1 or https://…")
    table: dict[str, Any] = {"provider": "openai", "base_url": url, "model": environment.get(NAME) or DEFAULT_MODEL}
    if key := secret(KEY):
        table["api_key"] = key
    return {**tables, DEFAULT_MODEL: table}
