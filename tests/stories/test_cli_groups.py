"""`jackfield groups` and `jackfield tools --group` against a real gateway."""

import json

from tests.harness.process import RunningGateway, run_cli
from tests.requirement import requirement


@requirement("MCP2-groups-cli")
def test_a_group_is_set_listed_shown_used_and_removed(gateway_project: RunningGateway) -> None:
    def cli(*words: str) -> tuple[int, str, str]:
        done = run_cli(*words, cwd=gateway_project.folder)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = cli("groups", "set", "sums", "ad*", "--description", "Sums", "--instructions", "Add up.")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line][:2] == ["sums", "Sums"]
    assert "/mcp/sums" in out
    assert "patterns  ad*" in out
    assert out.endswith("Add up.\n")
    _, out, _ = cli("groups")
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "TOOLS", "ORIGIN", "DESCRIPTION"],
        ["sums", "1", "api", "Sums"],
    ]
    _, out, _ = cli("groups", "show", "sums", "--json")
    assert json.loads(out)["group"]["tools"] == ["ad*"]
    _, out, _ = cli("tools", "--group", "sums", "--json")
    assert [tool["name"] for tool in json.loads(out)["tools"]] == ["add"]
    assert cli("groups", "remove", "sums") == (0, "Removed the group 'sums'.\n", "")
    code, _, err = cli("tools", "--group", "sums")
    assert (code, "There is no group 'sums'." in err) == (2, True)


def test_a_wrong_command_line_says_what_is_missing(gateway_project: RunningGateway) -> None:
    for words, said in (
        (("show",), "'show' needs the name of a group"),
        (("set", "sums"), "'set' needs at least one pattern"),
        (("remove", "sums", "x*"), "'remove' takes no patterns"),
    ):
        done = run_cli("groups", *words, cwd=gateway_project.folder)
        assert done.returncode == 2
        assert said in done.stderr
