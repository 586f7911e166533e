"""docs/how-to/: each guide in an empty folder, as a reader does it, with the files and commands of the page.

A block whose first line names a file is that file. What the commands print is compared as in `test_tutorial.py`.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.harness.process import RunningGateway, clean_environment, free_port, running_gateway
from tests.requirement import requirement
from tests.stories.test_tutorial import Block, assert_prints, blocks_of

ROOT = Path(__file__).parents[2]
GUIDES = {path.stem: path for path in sorted((ROOT / "docs/how-to").glob("*.md")) if path.stem != "index"}
SERVE = "jackfield serve\n"
PORTS = ("8420", "8421", "8460", "8461")
MARK = "=== end of block"
_FILE = re.compile(r"^( *)```\w+\n\1# (?P<path>[\w/.]+)\n(?P<text>.*?)^\1```$", re.DOTALL | re.MULTILINE)


def files_of(guide: Path) -> dict[str, str]:
    text = guide.read_text(encoding="utf-8")
    return {found["path"]: dedent(found["text"]) for found in _FILE.finditer(text) if "." in found["path"]}


def paste(blocks: list[Block], gateway: RunningGateway, env: dict[str, str], ports: dict[str, str]) -> list[str]:
    script = "".join(f"{block.commands}\necho '{MARK}'\n" for block in blocks)
    for written, free in ports.items():
        script = script.replace(written, free)
    ran = subprocess.run(
        ["bash", "--norc"],
        input=script,
        cwd=gateway.folder,
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    printed = ran.stdout.split(f"{MARK}\n")
    assert len(printed) == len(blocks) + 1, ran.stdout
    return printed[:-1]


@requirement("DOC-how-to")
@pytest.mark.parametrize("name", [name for name in GUIDES if name not in ("login", "cluster")])
def test_a_guide_works_as_it_is_written(name: str, tmp_path: Path) -> None:
    follow(name, tmp_path, {})


@requirement("DOC-how-to")
def test_the_guide_to_a_cluster_works_as_it_is_written(tmp_path: Path, postgres_url: str) -> None:
    vault = subprocess.check_output(["sh", "-c", "head -c 32 /dev/urandom | base64 | tr '+/' '-_'"], text=True).strip()
    key = "the-key-of-every-gateway-of-the-cluster"
    follow(
        "cluster",
        tmp_path,
        {
            "JACKFIELD_STORE": postgres_url,
            "JACKFIELD_VAULT_KEY": vault,
            "JACKFIELD_ADMIN_KEY": key,
            "JACKFIELD_KEY": key,
        },
    )


def follow(name: str, folder: Path, env: dict[str, str]) -> None:
    guide = GUIDES[name]
    serve, *blocks = blocks_of(str(guide.relative_to(ROOT)))
    assert serve.commands == SERVE
    ports = {port: str(free_port()) for port in PORTS}
    files = files_of(guide)
    for written, free in ports.items():
        files = {path: text.replace(written, free) for path, text in files.items()}
    path = f"{Path(sys.executable).parent}:{clean_environment()['PATH']}"
    env = {"JACKFIELD_PORT": ports["8420"], "PATH": path, **env}
    with running_gateway(folder, files=files, env=env) as gateway:
        assert_prints(blocks, paste(blocks, gateway, env, ports))
    shutil.rmtree(folder)
