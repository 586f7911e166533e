"""`/api/v1/config`: what is in force and where each value comes from, and reading the config file anew.

Above: the URL map. Below: `reloading.py`, and `settings/origins.py`, which leaves secrets out.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.gateway.reloading import ConfigReloader
from jackfield.gateway.siblings import News, Siblings
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.settings import Settings
from jackfield.settings.origins import ConfigValue, Origin


class ReloadRecord(Struct, frozen=True, kw_only=True):
    """What is new, gone or different, by names such as `sources.github`, `auth.keys.ci` and `models.fast`."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    restart_needed: tuple[str, ...]
    """Different in the file, and in force only after a restart, such as `server.port`."""


class ConfigValueRecord(Struct, frozen=True, kw_only=True):
    """One value in force. A variable is shown as `${NAME}`; a secret that is written out is hidden."""

    key: str
    """As in the config file, such as `server.port`, `auth.keys.ci.scopes` and `hooks[0].url`."""
    value: Any
    origin: Origin
    """`api`: made while the gateway runs."""
    given_by: str | None
    """The environment variable or the option that set it."""


class ConfigRecord(Struct, frozen=True, kw_only=True):
    """The config in force at this gateway."""

    path: str | None
    """The file; null: there is none."""
    read_at: Time
    error: str | None
    """Why the file, which was read again since, is not in force."""
    restart_needed: tuple[str, ...]
    """Different in the file, and in force only after a restart."""
    differs: dict[str, tuple[str, ...]]
    """By other gateway of the database: the tables that are not the same there."""
    values: list[ConfigValueRecord]


class ConfigApi:
    """Handlers of `/api/v1/config`."""

    def __init__(
        self,
        reloader: ConfigReloader,
        *,
        settings: Callable[[], Settings],
        made_here: Callable[[], Iterable[ConfigValue]],
        redact: Callable[[str], str],
        siblings: Siblings | None,
    ) -> None:
        """`made_here`: what was made over the API, besides the settings."""
        self._siblings = siblings
        self._reloader = reloader
        self._settings = settings
        self._made_here = made_here
        self._redact = redact

    async def show_config(self, request: Request) -> Response:
        """Every value in force and where it comes from."""
        settings, reloader = self._settings(), self._reloader

        def clean(value: Any) -> Any:
            match msgspec.to_builtins(value):
                case str() as text:
                    return self._redact(request.sanitizer.for_admins(text))
                case list() as items:
                    return [clean(item) for item in items]
                case dict() as table:
                    return {clean(key): clean(inner) for key, inner in table.items()}
                case other:
                    return other

        values = sorted([*settings.values, *self._made_here()], key=lambda one: one.key)
        return json_response(
            ConfigRecord(
                path=None if settings.path is None else str(settings.path),
                read_at=iso_time(reloader.read_at),
                error=None if reloader.error is None else clean(reloader.error),
                restart_needed=reloader.restart_needed,
                differs=reloader.differs,
                values=[
                    ConfigValueRecord(
                        key=clean(one.key), value=clean(one.value), origin=one.origin, given_by=one.given_by
                    )
                    for one in values
                ],
            )
        )

    async def reload(self, request: Request) -> Response:
        """Read the config anew and apply it, whole or not at all."""
        name = request.principal.name
        changes = await self._reloader.reload(f"asked for by '{name}'", actor=name)
        if self._siblings is not None:
            self._siblings.tell(News(reload=f"asked for by '{name}'"))
        record = ReloadRecord(
            added=changes.added,
            removed=changes.removed,
            changed=changes.changed,
            restart_needed=changes.restart_needed,
        )
        return json_response(record)


def routes(
    reloader: ConfigReloader,
    *,
    settings: Callable[[], Settings],
    made_here: Callable[[], Iterable[ConfigValue]],
    redact: Callable[[str], str],
    siblings: Siblings | None = None,
) -> list[Route]:
    """Every route of the config."""
    api = ConfigApi(reloader, settings=settings, made_here=made_here, redact=redact, siblings=siblings)
    return [
        Route(
            method="GET",
            path="/api/v1/config",
            handler=api.show_config,
            scope=Scope.ADMIN,
            tag="Operation",
            summary="The config in force, and where each value comes from; never a secret",
            responses={200: ResponseSpec(description="Every value, with its origin", type=ConfigRecord)},
        ),
        Route(
            method="POST",
            path="/api/v1/config/reload",
            handler=api.reload,
            scope=Scope.ADMIN,
            tag="Operation",
            summary="Read the config file anew and apply it, whole or not at all",
            responses={200: ResponseSpec(description="What changed", type=ReloadRecord)},
            errors=(409, 503),
        ),
    ]
