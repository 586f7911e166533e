"""The command line of `jackfield models`."""

from argparse import Namespace

import pytest

from jackfield.cli import models as cli
from jackfield.cli.options import UsageError
from jackfield.sdk.models import ModelInfo, ModelTest
from tests.requirement import requirement


def read(*words: str) -> Namespace:
    return cli.models.read("models", list(words))


@requirement("OPS-models-run-time")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add",), "'add' needs the name of a model"),
        (("add", "provider=openai"), "'add' needs the name of a model"),
        (("tets", "x"), "Did you mean 'test'?"),
        (("remove", "x", "a=b"), "'remove' takes no fields"),
        (("add", "x", "--unset", "a"), "--unset is for 'edit'"),
        (("x", "--unset", "a"), "are for 'add', 'edit' and 'test'"),
    ],
)
def test_a_wrong_line_is_explained(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        cli.check_words(read(*words))
    assert said in refused.value.message


def test_models_are_listed_shown_and_their_tests_told() -> None:
    model = ModelInfo(name="fast", origin="api", provider="openai", model="m", error="No.", settings={"timeout": 5})
    lines = cli.list_lines([model])
    assert lines[0].split() == ["NAME", "PROVIDER", "MODEL", "ORIGIN", "ERROR"]
    assert lines[1].split() == ["fast", "openai", "m", "api", "No."]
    assert ["timeout", "5"] in [line.split() for line in cli.model_lines(model)]
    assert list(cli.test_lines(ModelTest(ok=True, text="ready", milliseconds=3)))[-1] == "ready"
    assert "It is down." in next(iter(cli.test_lines(ModelTest(ok=False, error="It is down."))))
