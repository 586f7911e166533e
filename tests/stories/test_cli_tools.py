"""`jackfield tools` against a real gateway."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.process import DEFAULT_CONFIG, DEFAULT_TOOLS, RunningGateway, run_cli, running_gateway
from tests.requirement import requirement

TOOLS = requirement("CON-cli-tools")

CLASHING = """
[sources.other]
kind = "files"
path = "more/*.py"
"""
EXAMPLES = """
[sources.local.tools.add.metadata]
rate_limit_per_minute = 1000
tags = ["sums"]
examples = [{ description = "Two and two", input = { a = 2, b = 2 } }]
"""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose second source has a file that is no Python and a name that the first one has too."""
    files = {
        "tools/story.py": DEFAULT_TOOLS,
        "more/same.py": "def add(a: int) -> int:\n    '''Another add.'''\n    return a\n",
        "more/broken.py": "def oops(:\n",
    }
    with running_gateway(
        tmp_path_factory.mktemp("troubled"), DEFAULT_CONFIG + CLASHING + EXAMPLES, files=files
    ) as gateway:
        yield gateway


@TOOLS
def test_the_table_has_name_source_category_and_what_each_tool_does(gateway_project: RunningGateway) -> None:
    done = run_cli("tools", cwd=gateway_project.folder)
    assert (done.returncode, done.stderr) == (0, "")
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["NAME", "SOURCE", "CATEGORY", "DESCRIPTION"]
    rows = {line.split()[0]: line.split(maxsplit=3)[1:] for line in lines}
    assert rows["add"] == ["local", "maths", "Add two whole numbers."]
    assert rows["confirm"] == ["internal", "-", "Give the arguments back as they are."]
    assert list(rows) == sorted(rows)
    assert "\x1b" not in done.stdout


@TOOLS
def test_search_gives_the_best_first(gateway_project: RunningGateway) -> None:
    done = run_cli("tools", "--search", "whole numbers", cwd=gateway_project.folder)
    assert done.stdout.splitlines()[1].startswith("add ")
    assert "boom" not in done.stdout


@TOOLS
def test_json_holds_the_tools_the_sources_and_the_notices(gateway_project: RunningGateway) -> None:
    listed = json.loads(run_cli("tools", "--json", "--source", "internal", cwd=gateway_project.folder).stdout)
    assert [tool["name"] for tool in listed["tools"]] == ["confirm"]
    assert {"name": "local", "status": "up"}.items() <= next(
        source for source in listed["sources"] if source["name"] == "local"
    ).items()
    assert listed["notices"] == []


@TOOLS
def test_one_tool_is_shown_whole_with_a_line_that_can_be_pasted(troubled: RunningGateway) -> None:
    done = run_cli("tools", "add", cwd=troubled.folder)
    said = done.stdout
    for part in (
        "Add two whole numbers.\n\nThe second one is 1 unless you say otherwise.",
        "source    local",
        "category  maths",
        "limit     1000 calls a minute",
        "tags      sums",
        "a  integer  required",
        "b  integer            default 1",
        "Two and two\n    jackfield call add a=2 b=2",
    ):
        assert part in said
    line = said.splitlines()[-1].strip()
    program, *words = shlex.split(line)
    assert program == "jackfield"
    assert run_cli(*words, cwd=troubled.folder).returncode == 0


@TOOLS
@pytest.mark.parametrize("tool", ["shapes", "echo", "nothing", "confirm"])
def test_the_line_to_try_works_for_every_kind_of_argument(gateway_project: RunningGateway, tool: str) -> None:
    line = run_cli("tools", tool, cwd=gateway_project.folder).stdout.splitlines()[-1]
    assert run_cli(*shlex.split(line)[1:], cwd=gateway_project.folder).returncode == 0


@TOOLS
def test_one_tool_as_json_is_its_manifest_entry(gateway_project: RunningGateway) -> None:
    tool = json.loads(run_cli("tools", "add", "--json", cwd=gateway_project.folder).stdout)
    assert (tool["name"], tool["source"], tool["parameters"]["required"]) == ("add", "local", ["a"])


@TOOLS
def test_what_is_wrong_with_the_catalog_stands_below_the_table(troubled: RunningGateway) -> None:
    done = run_cli("tools", cwd=troubled.folder)
    table, trouble = done.stdout.split("\n\n", 1)
    assert "other_add" in table
    assert "more/broken.py" in trouble or "broken.py" in trouble
    notice = next(line for line in trouble.splitlines() if line.startswith("note: "))
    assert "'local'" in notice
    assert "'other'" in notice


def test_an_unknown_tool_or_source_is_said(gateway_project: RunningGateway) -> None:
    tool = run_cli("tools", "nothere", cwd=gateway_project.folder)
    assert (tool.returncode, tool.stdout) == (2, "")
    assert "There is no tool 'nothere'" in tool.stderr
    source = run_cli("tools", "--source", "lokal", cwd=gateway_project.folder)
    assert source.returncode == 2
    assert "Did you mean 'local'?" in source.stderr


def test_a_source_that_is_down_is_shown_and_the_rest_listed(tmp_path: Path) -> None:
    config = DEFAULT_CONFIG + '\n[sources.gone]\nkind = "files"\npath = "missing/*.py"\n'
    with running_gateway(tmp_path, config, files={"tools/story.py": DEFAULT_TOOLS}) as gateway:
        done = run_cli("tools", cwd=gateway.folder)
    assert "add " in done.stdout
    assert "gone" in done.stdout
