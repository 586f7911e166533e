"""All models, by name: of the config, and made while the gateway runs (`run_time.py`).

Above: the gateway, which opens and closes them, and whoever asks one.

Below: one file per provider; a new one is its file, its options in `options.py` and a line here. What the operator
wrote is checked at the start.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, convert

from jackfield.errors import BadRequest, ConfigError, NotFound
from jackfield.llm.openai import OpenAIModel, Send
from jackfield.llm.script import read_script
from jackfield.llm.scripted import ScriptedModel
from jackfield.llm.types import (
    Model,
    ModelRequest,
    OpenAIOptions,
    Price,
    RefusalDelta,
    ScriptedOptions,
    TextDelta,
    TokenCount,
)
from jackfield.model.items import Item
from jackfield.model.text import nearest
from jackfield.settings.parsing import parse_config


class ModelNotFound(NotFound):
    """A name that no table under `[models]` has."""

    code = "model_not_found"


class _Place(Struct, frozen=True, kw_only=True):
    """Where a model is described, and what it may use."""

    name: str
    where: str
    folder: Path
    send: Send
    tokens: TokenCount


def _openai(options: dict[str, Any], place: _Place) -> Model:
    given = parse_config(options, OpenAIOptions, where=place.where)
    url = urlsplit(given.base_url)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise ConfigError(
            f"{place.where}.base_url {given.base_url!r} is not a full url. Write http://host[:port]/v1 or https://…"
        )
    if url.username or url.password:
        raise ConfigError(f"{place.where}.base_url has a user or password in it. Send them as headers.")
    return OpenAIModel(place.name, given, send=place.send, tokens=place.tokens)


def _scripted(options: dict[str, Any], place: _Place) -> Model:
    given = parse_config(options, ScriptedOptions, where=place.where)
    script = read_script(place.folder / given.script, named_in=f"{place.where}.script")
    return ScriptedModel(script, name=place.name, tokens=place.tokens)


PROVIDERS: Mapping[str, Callable[[dict[str, Any], _Place], Model]] = {"openai": _openai, "scripted": _scripted}


class DescribedModel(Struct, frozen=True, kw_only=True, eq=False):
    """A model and the table that describes it."""

    table: dict[str, Any]
    model: Model


class Models:
    """Every model. `tables` are the `[models.NAME]`; `send` is the gateway's one way out."""

    def __init__(
        self, tables: Mapping[str, Mapping[str, Any]], *, folder: Path, send: Send, where: str = "the configuration"
    ) -> None:
        self.tokens: dict[str, TokenCount] = {}
        """By name; of models that are gone, too, until the gateway stops."""
        self._folder = folder
        self._send = send
        self._where = where
        self._configured: dict[str, DescribedModel] = {}
        self._made: dict[str, DescribedModel] = {}
        self.apply(self.prepared(tables))

    @property
    def configured(self) -> dict[str, DescribedModel]:
        """Those of the config."""
        return self._configured

    @property
    def names(self) -> tuple[str, ...]:
        """In the config's order, then those made at run time."""
        return tuple({**self._configured, **self._made})

    async def get(self, name: str) -> Model:
        """The model of that name. Raises `ModelNotFound`."""
        described = self._configured.get(name) or self._made.get(name)
        if described is None:
            raise self.unknown(name)
        return described.model

    def price_of(self, name: str) -> Price | None:
        """What its tokens cost, where the operator says so."""
        described = self._configured.get(name) or self._made.get(name)
        table = {} if described is None else described.table
        return convert(table["price"], Price) if "price" in table else None

    def unknown(self, name: str) -> ModelNotFound:
        """What to say of a name that no model has."""
        known = f"Known: {', '.join(self.names)}." if self.names else "Add [models.NAME] to the config."
        return ModelNotFound(f"There is no model '{name}'.{nearest(name, list(self.names))} {known}", param="model")

    def prepared(self, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, DescribedModel]:
        """The models that these tables describe; one that is here already and did not change is the same. Raises
        `ConfigError`.
        """
        return {
            name: known
            if (known := self._configured.get(name)) is not None and known.table == table
            else DescribedModel(table=dict(table), model=self.made(name, table, where=f"{self._where}: models.{name}"))
            for name, table in tables.items()
        }

    def apply(self, configured: dict[str, DescribedModel]) -> None:
        """Have these for the models of the config. Who is asking one that is gone is answered to the end."""
        self._configured = configured

    def add_made(self, made: dict[str, DescribedModel]) -> None:
        """Have these besides the models of the config, which count where both have a name."""
        self._made = made

    def made(self, name: str, table: Mapping[str, Any], *, where: str, is_counted: bool = True) -> Model:
        """A model by its table. `is_counted`: its tokens are those of that name. Raises `ConfigError`."""
        tokens = self.tokens.setdefault(name, TokenCount()) if is_counted else TokenCount()
        return _model(dict(table), _Place(name=name, where=where, folder=self._folder, send=self._send, tokens=tokens))

    async def close(self) -> None:
        for described in (*self._configured.values(), *self._made.values()):
            await described.model.close()


def _model(table: dict[str, Any], place: _Place) -> Model:
    provider, price = table.pop("provider", None), table.pop("price", None)
    if price is not None:
        parse_config(price, Price, where=f"{place.where}.price")
    if not isinstance(provider, str):
        raise ConfigError(f'{place.where} needs a provider: "openai" or "scripted". Add it.')
    if provider not in PROVIDERS:
        raise ConfigError(
            f"{place.where}.provider is '{provider}', which is not known.{nearest(provider, list(PROVIDERS))} "
            f"Known: {', '.join(PROVIDERS)}."
        )
    return PROVIDERS[provider](table, place)


DEFAULT = "default"


async def answer_to(
    models: Models,
    items: tuple[Item, ...],
    *,
    instructions: str | None = None,
    model: str | None = None,
    max_output_tokens: int | None = None,
) -> str:
    """What a model says next in a conversation without tools."""
    asked = await models.get(model or default_model(models))
    request = ModelRequest(items=items, instructions=instructions, max_output_tokens=max_output_tokens)
    return await words_of(asked, request)


async def words_of(model: Model, request: ModelRequest) -> str:
    """All that a model says in one step. Raises `ModelFailed`."""
    async with aclosing(model.stream(request)) as deltas:
        return "".join([delta.text async for delta in deltas if isinstance(delta, TextDelta | RefusalDelta)])


def default_model(models: Models) -> str:
    """`default` if there is one of that name, else the first."""
    if not models.names:
        raise BadRequest("There is no model. Add [models.default] to the config.", param="model")
    return DEFAULT if DEFAULT in models.names else models.names[0]
