"""Models over HTTP: list, show, make, change, remove, test. For administrators. `/v1/models` is for those who ask them.

Above: the URL map. Below: `llm/run_time.py`.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from jackfield.errors import BadRequest
from jackfield.http.bodies import read_object
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.keys_api import require_unlimited
from jackfield.llm.models import words_of
from jackfield.llm.run_time import RunTimeModels
from jackfield.llm.types import Model, ModelFailed, ModelRequest
from jackfield.model.ids import new_id
from jackfield.model.items import ID_PREFIX, InputText, Message
from jackfield.model.principal import Scope

TEST_SECONDS = 60.0
TEST_TOKENS = 64
QUESTION = "Answer with the one word: ready"
MOST_TEXT = 1_000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

ModelName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9._-]+(?![\\s\\S])",
        description="1 to 64 letters, digits, '.', '_' or '-'",
    ),
]


class ModelRecord(Struct, frozen=True, kw_only=True):
    """One model. `error`: why it cannot be used at this gateway."""

    name: str
    origin: Literal["config", "api"]
    provider: str | None
    model: str | None
    """What its server calls it."""
    base_url: str | None
    error: str | None
    input_tokens: int
    """Read by it since this gateway started."""
    output_tokens: int
    settings: dict[str, Any] | None = None
    """Of a model that was made here: what was given, with `${NAME}` for secrets. An `api_key` and values of `headers`
    and `body` that name no secret are left out."""


class AdminModelList(Struct, frozen=True, kw_only=True):
    """Every model: those of the config, then those made here."""

    models: list[ModelRecord]


class OneModel(Struct, frozen=True, kw_only=True):
    """A model in its envelope."""

    model: ModelRecord


class ModelBody(Struct, frozen=True, kw_only=True):
    """A model, with the same fields as `[models.NAME]` in the config beside its name."""

    name: ModelName
    provider: str


class ModelTest(Struct, frozen=True, kw_only=True):
    """What a model said when it was asked one short question."""

    ok: bool
    error: str | None
    text: str
    milliseconds: int


class ModelsApi:
    """Handlers of `/api/v1/models`."""

    def __init__(self, run_time: RunTimeModels, *, redact: Callable[[str], str]) -> None:
        self._run_time = run_time
        self._redact = redact

    async def list_configured_models(self, _request: Request) -> Response:
        """Every model."""
        return json_response(AdminModelList(models=[self._record(name) for name in self._run_time.models.names]))

    async def show_configured_model(self, request: Request) -> Response:
        """One model."""
        return json_response(OneModel(model=self._shown(request.part("name"))))

    async def create_model(self, request: Request) -> Response:
        """Make a model; it can be asked at every gateway."""
        name, raw = _named(await read_object(request))
        require_unlimited(request.principal)
        await self._run_time.create(name, raw, created_by=request.principal.name)
        return json_response(OneModel(model=self._shown(name)), status=201)

    async def change_model(self, request: Request) -> Response:
        """Change some fields of a model, as a JSON merge patch does; null removes one."""
        name, patch = request.part("name"), await read_object(request)
        require_unlimited(request.principal)
        if patch.pop("name", name) != name:
            raise BadRequest("A model keeps its name. Leave the name out, or make another model.", param="name")
        await self._run_time.change(name, patch, by=request.principal.name)
        return json_response(OneModel(model=self._shown(name)))

    async def remove_model(self, request: Request) -> Response:
        """Forget a model."""
        require_unlimited(request.principal)
        await self._run_time.remove(request.part("name"), by=request.principal.name)
        return EmptyResponse(204)

    async def test_model(self, request: Request) -> Response:
        """Ask a model there is one short question."""
        require_unlimited(request.principal)
        return await self._tested(await self._run_time.made_again(request.part("name")))

    async def test_new_model(self, request: Request) -> Response:
        """Ask a model that is not kept one short question."""
        body = await read_object(request)
        require_unlimited(request.principal)
        name, raw = _named({"name": "test", **body})
        return await self._tested(self._run_time.made_for_test(name, raw))

    async def _tested(self, model: Model) -> Response:
        question = Message(id=new_id(ID_PREFIX[Message]), role="user", content=(InputText(text=QUESTION),))
        asked = ModelRequest(items=(question,), max_output_tokens=TEST_TOKENS)
        began, text, error = time.monotonic(), "", None
        try:
            async with asyncio.timeout(TEST_SECONDS):
                text = await words_of(model, asked)
        except ModelFailed as fault:
            error = fault.message
        except TimeoutError:
            error = f"It did not answer within {TEST_SECONDS:g} s."
        finally:
            await model.close()
        return json_response(
            ModelTest(
                ok=error is None,
                error=None if error is None else self._redact(error),
                text=self._redact(text[:MOST_TEXT]),
                milliseconds=round((time.monotonic() - began) * 1_000),
            )
        )

    def _shown(self, name: str) -> ModelRecord:
        if name not in self._run_time.models.names:
            raise self._run_time.models.unknown(name[:100])
        return self._record(name)

    def _record(self, name: str) -> ModelRecord:
        models = self._run_time.models
        configured = models.configured.get(name)
        settings = self._run_time.settings_of(name) if configured is None else None
        table = settings or (configured.table if configured is not None else {})

        def field(key: str) -> str | None:
            value = table.get(key)
            return self._redact(value) if isinstance(value, str) else None

        error, tokens = self._run_time.fault_of(name), models.tokens.get(name)
        return ModelRecord(
            name=name,
            origin="api" if configured is None else "config",
            provider=field("provider"),
            model=field("model"),
            base_url=field("base_url"),
            error=None if error is None else self._redact(error),
            input_tokens=0 if tokens is None else tokens.input,
            output_tokens=0 if tokens is None else tokens.output,
            settings=settings,
        )


def _named(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a model, and its other fields."""
    raw = dict(body)
    name = raw.pop("name", None)
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise BadRequest("A model needs a name of 1 to 64 letters, digits, '.', '_' or '-'. Give one.", param="name")
    return name, {key: value for key, value in raw.items() if value is not None}


def routes(run_time: RunTimeModels, *, redact: Callable[[str], str]) -> list[Route]:
    """Every route of models for administrators."""
    api = ModelsApi(run_time, redact=redact)
    one = ResponseSpec(description="The model as it is now", type=OneModel)
    tested = ResponseSpec(description="What it said, or why it did not", type=ModelTest)

    def route(method: str, path: str, handler: Any, summary: str, **more: Any) -> Route:
        return Route(
            method=method,
            path=f"/api/v1/models{path}",
            handler=handler,
            scope=Scope.ADMIN,
            tag="Models",
            summary=summary,
            **more,
        )

    return [
        route(
            "GET",
            "",
            api.list_configured_models,
            "Every model, of the config and made here",
            responses={200: ResponseSpec(description="Each model, without secrets", type=AdminModelList)},
        ),
        route(
            "POST",
            "",
            api.create_model,
            "Make a model, with the fields of `[models.NAME]` in the config; it can be asked at every gateway",
            body=ModelBody,
            responses={201: one},
            errors=(409,),
        ),
        route(
            "POST",
            "/test",
            api.test_new_model,
            "Ask a model one short question; nothing is kept",
            body=ModelBody,
            responses={200: tested},
        ),
        route("GET", "/{name}", api.show_configured_model, "One model", responses={200: one}, errors=(404,)),
        route(
            "PATCH",
            "/{name}",
            api.change_model,
            "Change fields of a model that was made here, as a JSON merge patch does; null removes one",
            body=dict[str, Any],
            responses={200: one},
            errors=(404, 409),
        ),
        route(
            "DELETE",
            "/{name}",
            api.remove_model,
            "Remove a model that was made here",
            responses={204: ResponseSpec(description="It is gone")},
            errors=(404, 409),
        ),
        route(
            "POST",
            "/{name}/test",
            api.test_model,
            "Ask a model one short question",
            responses={200: tested},
            errors=(404,),
        ),
    ]
