"""`jackfield sources add|edit|remove|test|restart` and `jackfield secrets` against a real gateway."""

import json
from pathlib import Path

from tests.harness.process import run_cli, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

CONFIG = "[admin]\ncommands = true\n"
GREETING = 'def hello() -> str:\n    """Greet."""\n    return "hello"\n'


@requirement("OPS-sources-cli", "OPS-sources-shown")
def test_sources_and_secrets_are_changed_by_commands(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(GREETING)
    (tmp_path / "broken.py").write_text("def hello(:\n    pass\n")
    (tmp_path / "source.toml").write_text(f'[sources.mine]\nkind = "files"\npath = "{tmp_path}/${{FILE}}.py"\n')
    with running_gateway(tmp_path, CONFIG):

        def cli(*words: str, stdin: str | None = None) -> tuple[int, str, str]:
            done = run_cli(*words, cwd=tmp_path, stdin=stdin)
            return done.returncode, done.stdout, done.stderr

        code, out, _ = cli("sources", "add", "mine", "--file", "source.toml")
        assert (code, "uses ${FILE}, which is not set" in out) == (1, True), out
        assert cli("secrets", "set", "FILE", stdin="greeting\n") == (0, "Set the secret 'FILE'.\n", "")
        code, out, _ = cli("secrets")
        assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["NAME", "FILE"])
        code, out, _ = cli("sources", "test", "mine")
        assert (code, "It works: 1 tool" in out, "hello" in out) == (0, True, True), out

        code, out, _ = cli("sources", "edit", "mine", "prefix=my_", "--json")
        assert (code, json.loads(out)["source"]["settings"]["prefix"]) == (0, "my_")
        eventually(lambda: cli("call", "my_hello") == (0, "hello\n", ""))
        assert cli("sources", "restart", "mine")[0] == 0
        code, out, _ = cli("sources", "test", "other", "kind=files", f"path={tmp_path}/broken.py")
        assert "broken.py, line 1: invalid syntax" in out

        cli("sources", "add", "bad", "kind=files", f"path={tmp_path}/broken.py")
        eventually(lambda: "broken.py, line 1: invalid syntax" in cli("sources", "bad")[1])
        assert cli("sources", "bad")[0] == 1
        assert "broken.py, line 1: invalid syntax" in cli("doctor")[1]

        assert cli("sources", "remove", "mine") == (0, "Removed the source 'mine'.\n", "")
        code, _, err = cli("sources", "mine")
        assert (code, "There is no source 'mine'." in err) == (2, True), err
        assert cli("secrets", "remove", "FILE")[0] == 0
