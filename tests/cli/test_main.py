import json

import pytest

from jackfield.cli.main import COMMANDS, main
from tests.harness.process import free_port
from tests.requirement import requirement


@pytest.fixture(autouse=True)
def _nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACKFIELD_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("JACKFIELD_KEY", "k")
    monkeypatch.delenv("JACKFIELD_DEBUG", raising=False)


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name}" in said for name in COMMANDS)


def test_without_a_command_the_overview_is_shown_as_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"examples:\n  jackfield {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["frobnicate"], "There is no command 'frobnicate'. Known: serve, init"),
        (["call"], "The following arguments are required: name"),
        (["tools", "one", "two"], "Unrecognized arguments: two. See 'jackfield tools --help'."),
        (["call", "add", "a=1", "--json", "{}"], "Arguments are given both as key=value and as --json"),
        (["call", "add", "--timeout", "soon"], "Argument --timeout: invalid float value: 'soon'."),
        (["tools", "add", "--search", "x"], "cannot be combined with --search"),
        (["approve"], "The following arguments are required: id"),
        (["approve", "call_1", "--edit", "[1]"], "The value of --edit must be a JSON object"),
        (["approve", "call_1", "--edit", "@/nowhere"], "The file /nowhere cannot be read"),
        (["answer", "call_1"], "Give either a result as JSON or --error TEXT."),
        (["answer", "call_1", "1", "--error", "x"], "Give either a result as JSON or --error TEXT."),
        (["answer", "call_1", "yes"], "The result is not valid JSON"),
        (["keys", "create", "ci", "--budget", "-3"], "--budget is -3; it takes 0 or more points per hour."),
        (["keys", "create", "ci", "--expires", "0"], "Leave it out for a key that does not expire."),
        (["prompts", "get", "review", "--arg", "code"], "--arg takes NAME=VALUE, not 'code'."),
        (["mcp", "--search-above", "-1"], "--search-above is -1; it takes 0 or more."),
        (["connect", "cursor", "--key-variable", "A B"], "'A B' cannot be the name of an environment variable."),
    ],
)
def test_a_wrong_line_is_one_sentence_on_stderr_and_exit_2(
    line: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert captured.err.startswith("error: ")
    assert len(captured.err.splitlines()) == 1


@requirement("OPS-CLI-did-you-mean")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["tool"], "There is no command 'tool'. Did you mean 'tools'? See 'jackfield --help'."),
        (["keys", "crate"], "There is no action 'crate'. Did you mean 'create'? See 'jackfield keys --help'."),
        (["groups", "xyz"], "There is no action 'xyz'. Known: list, show, set, remove. See 'jackfield groups --help'."),
        (["completion", "zhs"], "There is no shell 'zhs'. Did you mean 'zsh'? See 'jackfield completion --help'."),
        (["tools", "--jsno"], "There is no option '--jsno'. Did you mean '--json'? See 'jackfield tools --help'."),
        (["tail", "--agnet=ann"], "There is no option '--agnet'. Did you mean '--agent'? See 'jackfield tail --help'."),
        (["tail", "-q"], "There is no option '-q'. See 'jackfield tail --help'."),
        (
            ["prefer", "add", "--approval", "requires"],
            "--approval cannot be 'requires'. Did you mean 'require'? See 'jackfield prefer --help'.",
        ),
    ],
)
def test_a_misspelt_word_is_told_the_one_that_was_meant(
    line: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"


@pytest.mark.parametrize(
    "line",
    [
        ["tools"],
        ["call", "add"],
        ["call", "add", "a=1"],
        ["tail"],
        ["pending"],
        ["pending", "--watch"],
        ["approve", "call_1"],
        ["reject", "call_1"],
        ["answer", "call_1", "null"],
    ],
)
def test_a_gateway_that_is_away_is_said_with_the_cure_and_exit_1(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 1
    assert "jackfield serve" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        ["tools", "--json"],
        ["call", "add", "--raw"],
        ["tail", "--json"],
        ["pending", "--json"],
        ["answer", "c", "1", "--json"],
    ],
)
def test_errors_are_json_where_json_was_asked_for(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == "gateway_unreachable"
    assert "jackfield serve" in error["message"]
    assert captured.err == ""


def test_arguments_and_options_may_be_mixed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "add", "a=1", "--raw", "b=2"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "gateway_unreachable"


def test_a_config_that_cannot_be_read_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JACKFIELD_URL")
    assert main(["tools", "--config", "/nowhere/jackfield.toml"]) == 1
    assert main(["call", "add", "--config", "/nowhere/jackfield.toml"]) == 2
    assert capsys.readouterr().err.count("There is no config at /nowhere/jackfield.toml") == 2


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("jackfield 0.")
