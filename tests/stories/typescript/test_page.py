"""docs/typescript.md: its programs are compiled against the packed client, run, and print what the page says."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.harness.process import RunningGateway, clean_environment, running_gateway
from tests.requirement import requirement
from tests.stories.test_tutorial import Block, assert_prints, blocks_of
from tests.stories.typescript.conftest import needs_npm, run

ROOT = Path(__file__).parents[3]
PAGE = "docs/typescript.md"
MARK = "=== end of block"
SERVER = "node serve.ts\n"
_FILE = re.compile(r"^```\w+\n(?:#|//) (?P<path>[\w/.]+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@needs_npm
@requirement("TS-page")
def test_the_page_works_as_it_is_written(app: Path, tmp_path: Path) -> None:
    files = {
        found["path"]: dedent(found["text"]) for found in _FILE.finditer((ROOT / PAGE).read_text(encoding="utf-8"))
    }
    programs = tmp_path / "programs"
    (programs / "src").mkdir(parents=True)
    for name in ("node_modules", "package.json", "tsconfig.json"):
        (programs / name).symlink_to(app / name)
    for name in [name for name in files if name.endswith(".ts")]:
        (programs / "src" / name).write_text(files.pop(name), encoding="utf-8")
    run(programs, "npx", "--no-install", "tsc", "-p", ".")
    serve, *blocks = blocks_of(PAGE)
    assert serve.commands == "jackfield serve\n"
    (tmp_path / "project").mkdir()
    with running_gateway(tmp_path / "project", files=files) as gateway:
        assert_prints([block for block in blocks if block.commands != SERVER], paste(blocks, gateway, programs))


def paste(blocks: list[Block], gateway: RunningGateway, programs: Path) -> list[str]:
    """What each block printed, in one shell; the one with the tool server goes on while the others run."""
    served = programs / "served.txt"
    script = ""
    for block in blocks:
        commands = re.sub(r"\bnode (\w+)\.ts", rf"node {programs}/out/\1.js", block.commands)
        if block.commands == SERVER:
            script += f"{commands.strip()} >{served} & server=$!\n"
            script += f"until grep -qs serving {served}; do sleep 0.1; done\n"
        else:
            script += f"{commands}\necho '{MARK}'\n"
    script += f"kill -INT $server; wait $server; tail -n 1 {served}\n"
    path = f"{Path(sys.executable).parent}:{clean_environment()['PATH']}"
    env = {"JACKFIELD_URL": gateway.url, "PATH": path, "XDG_STATE_HOME": str(programs / "state")}
    done = subprocess.run(
        ["bash", "--norc"],
        input=script,
        cwd=gateway.folder,
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    *printed, last = done.stdout.split(f"{MARK}\n")
    assert last == "stopped\n", done.stdout
    return printed
