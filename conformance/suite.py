"""The suite and the Inspector as npm packages: installed once into a folder that git ignores, run with Node.

Above: the legs. Both want Node 22; where the machine's is older or missing, npm brings one along. npm itself must
be there.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from conformance.results import AUTHORIZATION, CLIENT, EXTENSIONS, FAILED, REVISIONS, Check

HOME = Path(__file__).parent.parent / ".conformance"
KEY_MODULE = Path(__file__).with_name("key.mjs")
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", INSPECTOR)
NODE_PACKAGE = "node@22"
NODE_FROM = (22, 19)
INSTALL_SECONDS = 600
RUN_SECONDS = 600
CLIENTS_AT_ONCE = 3
OLDEST = REVISIONS[0]
SCENARIO_MS = 90_000
"""The suite's own limit is 30 s, which a busy machine may need to start a gateway."""
INSPECT_SECONDS = 60


class SuiteError(Exception):
    """The suite could not be run, so nothing is known."""


class Tools(Struct, frozen=True, kw_only=True):
    """What is installed, and which Node runs it."""

    node: str
    suite: Path
    inspector: Path


class Asked(Struct, frozen=True, kw_only=True):
    """Which scenarios are to run."""

    revision: str
    only: tuple[str, ...] = ()
    """These, instead of all."""

    def of(self, names: list[str]) -> list[str]:
        return [name for name in names if not self.only or name in self.only]


class _Found(Struct):
    id: str
    status: str
    message: str | None = msgspec.field(default=None, name="errorMessage")


def installed() -> Tools:
    """Everything in place; npm is asked only when something is missing."""
    modules = HOME / "node_modules"
    own_node = _own_node()
    wanted = [*PACKAGES, *([] if own_node else [NODE_PACKAGE])]
    stamp = HOME / "installed"
    if not stamp.exists() or stamp.read_text(encoding="utf-8").split() != wanted:
        _install(wanted)
        stamp.write_text("\n".join(wanted), encoding="utf-8")
    scope = modules / "@modelcontextprotocol"
    return Tools(
        node=own_node or str(modules / ".bin" / "node"),
        suite=scope / "conformance" / "dist" / "index.js",
        inspector=scope / "inspector" / "clients" / "launcher" / "build" / "index.js",
    )


def scenarios(tools: Tools, leg: str, revision: str) -> list[str]:
    """The names of a leg's scenarios in a revision, or of those that are extensions.

    Those that only revisions before 2025-11-25 have are counted with it: all of them are of the handshake era.
    """
    tag = "extension" if revision == EXTENSIONS else revision
    listed = _listed(tools, leg)
    older = [name for name, tags in listed.items() if tags[-1] < OLDEST] if revision == OLDEST else []
    return [name for name, tags in listed.items() if tag in tags or name in older]


def _listed(tools: Tools, leg: str) -> dict[str, list[str]]:
    """A leg's scenarios, each with the revisions that have it, oldest first."""
    said = _run(tools, "list", f"--{leg}")
    found = re.findall(r"^ {2}- (\S+) \[(\S+)\]$", said.stdout, re.MULTILINE)
    return {name: sorted(tags.split(",")) for name, tags in found}


def run_suite(tools: Tools, leg: str, *arguments: str, folder: Path, asked: Asked, key: str = "") -> tuple[Check, ...]:
    """Every check of a leg's scenarios; the arguments say on what. What ran leaves its result in `folder`."""
    wanted = asked.of(scenarios(tools, leg, asked.revision))
    folder.mkdir(parents=True)
    output = ("--output-dir", str(folder), "--timeout", str(SCENARIO_MS))
    revision = () if asked.revision == EXTENSIONS else ("--spec-version", asked.revision)
    listed = _listed(tools, leg)

    def run_one(name: str) -> "subprocess.CompletedProcess[str]":
        newest = listed[name][-1]
        own = revision if asked.revision in (EXTENSIONS, *listed[name]) else ("--spec-version", newest)
        return _run(tools, leg, *arguments, "--scenario", name, *own, *output, key=key)

    if leg == CLIENT:  # a server of its own each: some at once, where the suite would run all at once
        with ThreadPoolExecutor(CLIENTS_AT_ONCE) as pool:
            said = list(pool.map(run_one, wanted))
    elif asked.only or asked.revision == EXTENSIONS:  # the suite has no switch for these
        said = [run_one(name) for name in wanted]
    else:
        said = [_run(tools, leg, *arguments, "--suite", "all", *revision, *output, key=key)]
    if wanted and not any(folder.iterdir()):
        heard = "".join(each.stdout + each.stderr for each in said)
        raise SuiteError(f"The suite ran no {leg} scenario of {asked.revision}. It said: {heard}")
    return tuple(check for name in wanted for check in _checks(folder, leg, name))


def run_authorization(
    tools: Tools, *arguments: str, folder: Path, asked: Asked, open_page: Callable[[str], None]
) -> tuple[Check, ...]:
    """Every check of the authorization leg. The suite prints a URL for a person's browser, which is given to
    `open_page`, and waits for what comes back."""
    wanted = asked.of(scenarios(tools, AUTHORIZATION, asked.revision))
    folder.mkdir(parents=True)
    command = [tools.node, str(tools.suite), AUTHORIZATION, *arguments, "--spec-version", asked.revision]
    process = subprocess.Popen(
        [*command, "--output-dir", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if line.startswith(("http://", "https://")):
                open_page(line.strip())
        process.wait(RUN_SECONDS)
    finally:
        process.kill()
        process.wait()
    if not any(folder.iterdir()):
        raise SuiteError(f"The suite ran no {AUTHORIZATION} scenario of {asked.revision}. It said: {''.join(said)}")
    return tuple(check for name in wanted for check in _checks(folder, AUTHORIZATION, name))


def inspect(tools: Tools, *, url: str, key: str, folder: Path, asked: tuple[str, ...]) -> dict[str, Any]:
    """What MCP Inspector's command line gets from the gateway, as JSON."""
    said = subprocess.run(
        [
            tools.node,
            str(tools.inspector),
            "--cli",
            url,
            "--transport",
            "http",
            "--header",
            f"x-api-key: {key}",
            *asked,
        ],
        env={**os.environ, "HOME": str(folder)},  # it keeps a catalog of servers at home
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSPECT_SECONDS,
        check=False,
    )
    try:
        answer: dict[str, Any] = msgspec.json.decode(said.stdout)
    except msgspec.DecodeError:
        raise SuiteError(f"Inspector gave no JSON for {asked}: {said.stdout}{said.stderr}") from None
    return answer


def _run(tools: Tools, *arguments: str, key: str = "") -> "subprocess.CompletedProcess[str]":
    """The suite's command line; with a key that it adds to its requests, where one is needed."""
    with_key = ("--import", KEY_MODULE.as_uri()) if key else ()
    return subprocess.run(
        [tools.node, *with_key, str(tools.suite), *arguments],
        env={**os.environ, "JACKFIELD_KEY": key},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def _results(folder: Path, leg: str, scenario: str) -> list[Path]:
    """The files that a scenario left."""
    prefix = {CLIENT: "", AUTHORIZATION: "authorization-server-"}.get(leg, f"{leg}-")
    named = re.compile(rf"{re.escape(f'{prefix}{scenario}')}-\d{{4}}-\d\d-\d\dT.*/checks\.json")
    return [file for file in folder.rglob("checks.json") if named.fullmatch(file.relative_to(folder).as_posix())]


def _checks(folder: Path, leg: str, scenario: str) -> list[Check]:
    """What one scenario found. One that left nothing has failed."""
    files = _results(folder, leg, scenario)
    if not files:
        return [Check(scenario=scenario, id="ran", status=FAILED, message="It ended without a result.")]
    found = [check for file in files for check in msgspec.json.decode(file.read_bytes(), type=list[_Found])]
    return [Check(scenario=scenario, id=check.id, status=check.status, message=check.message or "") for check in found]


def _own_node() -> str | None:
    """The machine's Node, if it is new enough."""
    node = shutil.which("node")
    if node is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", said)
    return node if version and (int(version[1]), int(version[2])) >= NODE_FROM else None


def _install(wanted: list[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SuiteError("npm is needed to install the conformance suite and was not found. Install Node.js with npm.")
    HOME.mkdir(exist_ok=True)
    (HOME / "package.json").write_text('{"private": true}', encoding="utf-8")
    _npm(npm, "install", "--no-package-lock", "--no-save", "--ignore-scripts", *wanted)
    if NODE_PACKAGE in wanted:  # its script, and no other, runs: it is what fetches Node
        _npm(npm, "rebuild", NODE_PACKAGE.partition("@")[0])


def _npm(npm: str, *arguments: str) -> None:
    said = subprocess.run(
        [npm, "--no-audit", "--no-fund", *arguments],
        cwd=HOME,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if said.returncode:
        raise SuiteError(f"'npm {' '.join(arguments)}' failed. It said: {said.stderr}")
