"""`client.models`, for administrators: the models that responses, agents and sessions ask."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment, send_json


class ModelInfo(Struct, frozen=True, kw_only=True):
    """One model."""

    name: str
    origin: str = ""
    """`config` or `api`."""
    provider: str | None = None
    model: str | None = None
    """What its server calls it."""
    base_url: str | None = None
    error: str | None = None
    """Why it cannot be used."""
    input_tokens: int = 0
    output_tokens: int = 0
    settings: dict[str, Any] | None = None
    """Of a model that was made at run time: what was given."""


class ModelTest(Struct, frozen=True, kw_only=True):
    """What a model said when it was asked one short question."""

    ok: bool
    error: str | None = None
    text: str = ""
    milliseconds: int = 0


class Models:
    """The gateway's models."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[ModelInfo, ...]:
        """Every model: those of the config, then those made at run time."""
        return await self._connection.fetch(get("/api/v1/models"), tuple[ModelInfo, ...], "models")

    async def get(self, name: str) -> ModelInfo:
        """One model. Raises `NotFound`."""
        return await self._connection.fetch(get(_model_path(name)), ModelInfo, "model")

    async def create(self, name: str, settings: Mapping[str, Any]) -> ModelInfo:
        """Make a model with the fields of `[models.NAME]` in the config, `${NAME}` for secrets."""
        request = send_json("POST", "/api/v1/models", {**settings, "name": name})
        return await self._connection.fetch(request, ModelInfo, "model")

    async def change(self, name: str, settings: Mapping[str, Any]) -> ModelInfo:
        """Change some fields of a model that was made at run time, as a JSON merge patch does; None removes one."""
        return await self._connection.fetch(send_json("PATCH", _model_path(name), dict(settings)), ModelInfo, "model")

    async def delete(self, name: str) -> None:
        """Remove a model that was made at run time."""
        await self._connection.send(ApiRequest(method="DELETE", path=_model_path(name)))

    async def test(self, name: str, settings: Mapping[str, Any] | None = None) -> ModelTest:
        """Ask one short question: of a model with these settings, which is not kept, or of the one of that name."""
        if settings is None:
            request = ApiRequest(method="POST", path=f"{_model_path(name)}/test")
        else:
            request = send_json("POST", "/api/v1/models/test", {**settings, "name": name})
        return await self._connection.fetch(request, ModelTest)


def _model_path(name: str) -> str:
    return f"/api/v1/models/{segment(name)}"
