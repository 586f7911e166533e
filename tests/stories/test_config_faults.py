"""A config that cannot be used: the start stops with one sentence that names the file, the key and the cure."""

from pathlib import Path

import pytest

from tests.harness.process import free_port, run_cli
from tests.requirement import requirement

FAULTS = {
    "not TOML": ("[server\n", ["is not valid TOML", "Correct it."]),
    "an unknown table": ("[serverr]\nport = 1\n", ["'serverr'", "Did you mean 'server'?"]),
    "an unknown key": (
        '[server]\nprot = 8421\nhost = "127.0.0.1"\n',
        ["jackfield.toml: server has", "'prot'", "Did you mean 'port'?"],
    ),
    "an unknown key of a source": (
        '[sources.local]\nkind = "files"\npath = "tools/*.py"\npaht = "x"\n',
        ["sources.local", "'paht'", "Did you mean 'path'?"],
    ),
    "an unknown key of a tool": (
        '[[tools]]\nname = "x"\ndescription = "x"\ninputSchema = {}\nexecutionType = "internal"\nvisibel = true\n',
        ["tools[0] (x)", "'visibel'", "Did you mean 'visible'?"],
    ),
    "an unknown key of one key of several": (
        '[auth.keys.good]\nkey = "12345678"\n[auth.keys.ops]\nkey = "23456789"\nscope = ["admin"]\n',
        ["jackfield.toml: auth.keys.ops has", "'scope'", "Did you mean 'scopes'?"],
    ),
    "an unknown key of an agent's own server": (
        '[models.default]\nprovider = "openai"\nmodel = "m"\n[agents.x]\n[[agents.x.mcp.servers]]\nnam = "y"\n',
        ["jackfield.toml: agents.x.mcp.servers[0] has", "'nam'", "Did you mean 'name'?"],
    ),
    "an unknown key of one category of several": (
        '[[categories]]\nid = "a"\nname = "A"\n[[categories]]\nid = "b"\nname = "B"\nicn = "x"\n',
        ["jackfield.toml: categories[1] has", "'icn'", "Did you mean 'icon'?"],
    ),
    "a wrong type": ('[server]\nport = "many"\n', ["jackfield.toml: server.port", "Correct it."]),
    "an unknown kind": ('[sources.x]\nkind = "filse"\n', ["sources.x", "filse", "files"]),
    "a missing kind": ('[sources.x]\npath = "y"\n', ["sources.x", "needs a kind", "Add it."]),
    "a tool with a url that is none": (
        (
            '[[tools]]\nname = "x"\ndescription = "x"\ninputSchema = {}\n'
            'executionType = "gateway"\nexecution = { url = "..." }\n'
        ),
        ["'x'", "execution.url is invalid"],
    ),
    "a secret that is not set": (
        '[auth.keys.ops]\nkey = "${NOT_SET_ANYWHERE}"\n',
        ["auth.keys.ops.key", "NOT_SET_ANYWHERE", "Set the environment variable"],
    ),
    "a model that nobody has": (
        '[models.default]\nprovider = "openai"\nmodel = "m"\n[agents.x]\nmodel = "defalt"\n',
        ["agents.x.model is 'defalt'", "Did you mean 'default'?"],
    ),
    "a model that nobody has, for a server that samples": (
        '[sources.s]\nkind = "mcp"\nurl = "http://127.0.0.1:9/mcp"\nsampling = "nope"\n',
        ["sources.s.sampling is 'nope'", "Add [models.nope]."],
    ),
    "a store that nobody knows": (
        '[store]\nurl = "mongodb://ops:sesame@db/x"\n',
        ["store.url: ", "mongodb://…@db/x", "sqlite:///"],
    ),
    "an unknown scope": (
        '[auth.keys.ops]\nkey = "12345678"\nscopes = ["everything"]\n',
        ["auth.keys.ops.scopes", "'everything'", "Known:"],
    ),
}


@requirement("CON-config-fault")
@pytest.mark.parametrize(
    ("config", "said"),
    [pytest.param(*given, id=name) for name, given in FAULTS.items()],
)
def test_the_start_stops_with_one_sentence(tmp_path: Path, config: str, said: list[str]) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text(config, encoding="utf-8")

    done = run_cli("serve", "--port", str(free_port()), cwd=tmp_path, timeout=30)

    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert str(path) in line
    assert [part for part in said if part not in line] == []
    assert not (tmp_path / ".jackfield").exists(), "a start that did not happen leaves nothing behind"


def test_a_config_that_is_not_there_is_named_with_the_way_to_make_one(tmp_path: Path) -> None:
    done = run_cli("serve", "--config", "nowhere.toml", cwd=tmp_path, timeout=30)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: There is no config at {tmp_path}/nowhere.toml. "
        "Give an existing file, or create one with 'jackfield init'.\n"
    )
