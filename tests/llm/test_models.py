"""The models of a config: checked at the start, opened when asked for, closed together."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jackfield.errors import ConfigError
from jackfield.llm import ModelNotFound, Models, ScriptedCall, ScriptedFailure, ScriptedModel, ScriptTurn, When
from jackfield.llm.openai import OpenAIModel
from jackfield.llm.script import Script
from jackfield.llm.types import OpenAIOptions, Price, ScriptedOptions
from jackfield.model.items import InputTokens, Usage
from jackfield.outgoing import Outgoing
from jackfield.settings import load_settings
from tests.llm.chat_server import FINE, ChatServer, step
from tests.requirement import requirement

DOCUMENT = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
OPENAI = {"provider": "openai", "model": "tiny", "base_url": "http://127.0.0.1:9/v1"}


def opened(tables: dict[str, Any], folder: Path, outgoing: Outgoing) -> Models:
    return Models(tables, folder=folder, send=outgoing.send, where="jackfield.toml")


async def test_models_are_read_from_the_config_and_asked_by_name(
    tmp_path: Path, server: ChatServer, outgoing: Outgoing
) -> None:
    (tmp_path / "demo.toml").write_text('[[turns]]\nsay = "Hi."', encoding="utf-8")
    config = tmp_path / "jackfield.toml"
    config.write_text(
        f"""
        [models.default]
        provider = "openai"
        base_url = "{server.base_url}"
        model = "tiny"
        api_key = "${{MODEL_KEY}}"

        [models.demo]
        provider = "scripted"
        script = "demo.toml"
        """,
        encoding="utf-8",
    )
    settings = load_settings(config, environment={"MODEL_KEY": "key-of-the-model"})
    models = Models(settings.models, folder=settings.folder, send=outgoing.send)
    assert models.names == ("default", "demo")

    server.plays = [FINE]
    await step(await models.get("default"))
    assert server.received[0].headers["authorization"] == "Bearer key-of-the-model"
    demo = await models.get("demo")
    assert isinstance(demo, ScriptedModel)
    assert demo.name == "demo"
    await models.close()


async def test_a_model_is_the_same_for_all_who_ask(tmp_path: Path, outgoing: Outgoing) -> None:
    models = opened({"default": OPENAI}, tmp_path, outgoing)
    first, *others = await asyncio.gather(*(models.get("default") for _ in range(5)))
    assert isinstance(first, OpenAIModel)
    assert all(model is first for model in others)
    await models.close()


@requirement("RUN-SHOWN")
async def test_a_model_has_a_price_where_the_operator_says_so(tmp_path: Path, outgoing: Outgoing) -> None:
    models = opened(
        {"a": {**OPENAI, "price": {"input": 2, "output": 10, "cached": 0.5}}, "b": OPENAI}, tmp_path, outgoing
    )
    price = models.price_of("a")
    assert price is not None
    read = Usage(input_tokens=1_000, output_tokens=100, input_tokens_details=InputTokens(cached_tokens=400))
    assert price.of(read) == pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)
    assert Price(input=2, output=10).of(read) == pytest.approx((1_000 * 2 + 100 * 10) / 1e6)
    assert models.price_of("b") is models.price_of("nobody") is None
    for wrong in ({"input": 2}, {"input": -1, "output": 1}, {"input": 1, "output": 1, "currency": "EUR"}, 3):
        with pytest.raises(ConfigError, match=r"models\.a\.price"):
            opened({"a": {**OPENAI, "price": wrong}}, tmp_path, outgoing)


async def test_a_name_that_nobody_has_is_refused_with_those_that_are(tmp_path: Path, outgoing: Outgoing) -> None:
    with pytest.raises(
        ModelNotFound, match=r"no model 'defualt'\. Did you mean 'default'\? Known: default\."
    ) as caught:
        await opened({"default": OPENAI}, tmp_path, outgoing).get("defualt")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(ModelNotFound, match=r"Add \[models.NAME\] to the config"):
        await opened({}, tmp_path, outgoing).get("default")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"model": "x"}, "models.m needs a provider"),
        (
            {"provider": "openia", "model": "x"},
            "models.m.provider is 'openia', which is not known. Did you mean 'openai'?",
        ),
        ({"provider": "openai"}, "models.m needs the key 'model'"),
        (OPENAI | {"temprature": 1}, "models.m has an unknown key 'temprature'"),
        (OPENAI | {"max_retrys": 1}, "Did you mean 'max_retries'?"),
        (OPENAI | {"timeout": 0}, "models.m.timeout is invalid"),
        (OPENAI | {"base_url": "127.0.0.1:8000"}, "models.m.base_url '127.0.0.1:8000' is not a full url"),
        (OPENAI | {"base_url": "http://me:pass@x.example/v1"}, "models.m.base_url has a user or password in it"),
        ({"provider": "scripted"}, "models.m needs the key 'script'"),
        ({"provider": "scripted", "script": "a.toml", "pace": 1}, "models.m has an unknown key 'pace'"),
        ({"provider": "scripted", "script": "none.toml"}, "none.toml cannot be read"),
    ],
)
async def test_a_table_that_cannot_be_used_stops_the_start_with_its_key(
    tmp_path: Path, outgoing: Outgoing, table: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        opened({"m": table}, tmp_path, outgoing)
    assert words in caught.value.message
    assert "models.m" in caught.value.message


@pytest.mark.parametrize(
    "options", [OpenAIOptions, ScriptedOptions, Script, ScriptTurn, ScriptedCall, ScriptedFailure, When]
)
def test_every_option_is_explained(options: Any) -> None:
    inner = {"turns", "origin"}
    assert [
        name for name in options.__struct_fields__ if name not in inner and not re.search(rf"\b{name}\b", DOCUMENT)
    ] == []


async def test_the_tables_of_the_document_are_ones_that_a_gateway_takes(tmp_path: Path, outgoing: Outgoing) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    (script,) = [block for block in blocks if "[[turns]]" in block]
    (tmp_path / "demo.toml").write_text(script, encoding="utf-8")
    config = tmp_path / "jackfield.toml"
    config.write_text("\n".join(block for block in blocks if block != script), encoding="utf-8")
    settings = load_settings(config, environment={"OPENAI_API_KEY": "key-0001"})
    assert opened(settings.models, tmp_path, outgoing).names == ("default", "cloud", "demo")


def test_no_model_needs_the_openai_sdk() -> None:
    code = "import sys, jackfield.llm.models; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
