"""`POST /api/v1/config/reload`: the config file is read anew.

Above: the URL map. Below: `reloading.py`.
"""

from msgspec import Struct

from jackfield.gateway.reloading import ConfigReloader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope


class ReloadRecord(Struct, frozen=True, kw_only=True):
    """What is new, gone or different, by names such as `sources.github`, `auth.keys.ci` and `models.fast`."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    restart_needed: tuple[str, ...]
    """Different in the file, and in force only after a restart, such as `server.port`."""


class ConfigApi:
    """Handlers of `/api/v1/config`."""

    def __init__(self, reloader: ConfigReloader) -> None:
        self._reloader = reloader

    async def reload(self, request: Request) -> Response:
        """Read the config anew and apply it, whole or not at all."""
        name = request.principal.name
        changes = await self._reloader.reload(f"asked for by '{name}'", actor=name)
        record = ReloadRecord(
            added=changes.added,
            removed=changes.removed,
            changed=changes.changed,
            restart_needed=changes.restart_needed,
        )
        return json_response(record)


def routes(reloader: ConfigReloader) -> list[Route]:
    """Every route of the config."""
    api = ConfigApi(reloader)
    return [
        Route(
            method="POST",
            path="/api/v1/config/reload",
            handler=api.reload,
            scope=Scope.ADMIN,
            tag="Operation",
            summary="Read the config file anew and apply it, whole or not at all",
            responses={200: ResponseSpec(description="What changed", type=ReloadRecord)},
            errors=(409, 503),
        )
    ]
