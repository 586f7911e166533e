"""`jackfield doctor`: looks at everything a gateway needs and says what to do about what is wrong.

Above: `main.py`. Below: `checks.py`, which does the looking.
"""

import asyncio
import logging
from argparse import ArgumentParser, Namespace

from jackfield.cli import checks
from jackfield.cli.checks import Finding, Level
from jackfield.cli.reach import answers, local_key, local_url
from jackfield.cli.show import harmless, paint, put, put_json
from jackfield.errors import ConfigError
from jackfield.model.words import counted
from jackfield.sdk import Client
from jackfield.settings import Settings, load_local, load_settings

DESCRIPTION = "Check this machine, the config, the data folder, the store, every source and the running gateway."
EXAMPLES = """\
  jackfield doctor
  jackfield doctor --config demo/jackfield.toml --json"""
_MARKS = {Level.OK: ("ok", "green"), Level.WARNING: ("warning", "yellow"), Level.FAULT: ("fault", "red")}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the config, or its folder")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    # What a source logs while it fails is in the findings, as a sentence.
    logging.getLogger("jackfield").setLevel(logging.CRITICAL)
    findings = asyncio.run(examine(options.config))
    faults = sum(finding.level is Level.FAULT for finding in findings)
    if options.json:
        put_json({"healthy": not faults, "findings": findings})
    else:
        for finding in findings:
            put(line_of(finding))
        put(f"\n{counted(faults, 'fault')}." if faults else "\nAll is well.")
    return 1 if faults else 0


async def examine(config: str | None) -> list[Finding]:
    """Every check that makes sense, in the order a person would look."""
    findings = [checks.check_python(), *checks.check_machine(), await checks.check_sandbox()]
    try:
        settings = load_settings(config)
    except ConfigError as error:
        return [*findings, checks.fault("config", error.message)]
    findings += [checks.describe_config(settings), *checks.check_data(settings), *checks.check_models(settings)]
    stops = checks.check_start(settings)
    findings += stops
    local = load_local(config)
    url, key = local_url(local), local_key(local)
    if await answers(url, key):
        return [*findings, checks.ok("store", "in use by the gateway that runs"), *await _running(settings, url, key)]
    sources = [] if stops else await checks.try_sources(settings)
    return [*findings, await checks.check_store(settings), *sources, checks.check_port(settings)]


async def _running(settings: Settings, url: str, key: str | None) -> list[Finding]:
    async with Client(url, key) as client:
        findings = list(checks.check_running(await client.ready(), url))
        offered = [(tool.name, tool.source) for tool in await client.tools.list()]
        return [*findings, *checks.check_tool_names(settings, offered)]


def line_of(finding: Finding) -> str:
    mark, colour = _MARKS[finding.level]
    cure = f" {finding.cure}" if finding.cure else ""
    return f"{paint(mark.ljust(7), colour)}  {paint(finding.subject, 'bold')}: {harmless(finding.says)}{harmless(cure)}"
