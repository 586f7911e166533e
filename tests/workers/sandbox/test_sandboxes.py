"""Which sandbox is taken, and what is said where there is none: it is never a weaker one than was asked for."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jackfield.settings.types import SandboxSettings
from jackfield.workers.sandbox.kinds import SandboxUnavailable
from jackfield.workers.sandbox.sandboxes import cure_for
from tests.workers.sandbox.inside import PYTHON, Booth, settings_of

ECHO = ("sh", "-c", 'echo "$@"', "runtime")


async def test_bubblewrap_is_used_where_it_is_installed_and_our_own_where_it_is_not(booth: Booth) -> None:
    await booth.need("namespaces")
    wanted = "bubblewrap" if await booth.sandboxes.fault(settings_of("bubblewrap")) is None else "namespaces"
    assert await booth.sandboxes.choose(SandboxSettings()) == wanted
    assert (await booth.plan(SandboxSettings(), "pass")).kind == wanted


async def test_without_bubblewrap_our_own_is_used(booth: Booth, monkeypatch: pytest.MonkeyPatch) -> None:
    await booth.need("namespaces")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert await booth.sandboxes.choose(SandboxSettings()) == "namespaces"


async def test_a_bubblewrap_that_does_not_work_is_not_used(booth: Booth, monkeypatch: pytest.MonkeyPatch) -> None:
    await booth.need("namespaces")
    old = booth.folder / "bwrap"
    old.write_text("#!/bin/sh\necho 'Unknown option --disable-userns' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{booth.folder}:{os.environ['PATH']}")
    assert await booth.sandboxes.choose(SandboxSettings()) == "namespaces"
    assert await booth.sandboxes.fault(settings_of("bubblewrap")) == (
        "This machine has no sandbox of kind 'bubblewrap': Unknown option --disable-userns. "
        "Install bubblewrap, 0.8 or newer."
    )


async def test_a_limit_on_processes_is_left_to_the_kind_that_keeps_it(
    booth: Booth, monkeypatch: pytest.MonkeyPatch
) -> None:
    await booth.need("namespaces")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert await booth.sandboxes.choose(SandboxSettings(processes=6)) == "namespaces"


async def test_without_a_sandbox_a_program_runs_as_any_other(booth: Booth) -> None:
    (booth.folder / "file").write_text("open")
    socket = booth.folder / "s"
    ended = await booth.run(
        settings_of("none"),
        "print(json.dumps([open('file').read(), os.environ['JACKFIELD_SOCKET']]))",
        folder=booth.folder,
        sockets={"JACKFIELD_SOCKET": socket},
    )
    assert ended.said == ["open", str(socket)]


async def test_a_kind_that_is_missing_is_an_error_that_says_so(booth: Booth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(booth.folder))
    with pytest.raises(SandboxUnavailable) as refused:
        await booth.plan(settings_of("bubblewrap"), "pass")
    assert refused.value.message == (
        "This machine has no sandbox of kind 'bubblewrap': The program bwrap is not installed. "
        "Install bubblewrap, 0.8 or newer."
    )
    assert await booth.sandboxes.fault(settings_of("bubblewrap")) == refused.value.message


async def test_a_machine_that_forbids_namespaces_is_told_of_and_nothing_weaker_is_taken(booth: Booth) -> None:
    """The inside of a sandbox is such a machine."""
    await booth.need("namespaces")
    ask = (
        "import asyncio, json\nfrom pathlib import Path\n"
        "from jackfield.settings.types import SandboxSettings\n"
        "from jackfield.workers.sandbox.sandboxes import Sandboxes\n"
        "from jackfield.workers.supervisor import Supervisor\n"
        "async def main():\n"
        "    supervisor = Supervisor()\n"
        "    sandboxes = Sandboxes(supervisor, base=Path(), hidden=())\n"
        "    kinds = ('auto', 'namespaces', 'none')\n"
        "    print(json.dumps([await sandboxes.fault(SandboxSettings(kind=kind)) for kind in kinds]))\n"
        "    await supervisor.close()\n"
        "asyncio.run(main())\n"
    )
    plan = await booth.sandboxes.plan(
        settings_of("namespaces"), command=(PYTHON[0], "-c", ask), env={"PATH": "/nowhere"}, with_jackfield=True
    )
    child, output = await booth.start(plan)
    auto, namespaces, none = json.loads(await output.read())
    assert await child.wait() == 0
    why = (
        "Could not start 'python' in a sandbox: making namespaces failed (No space left on device). "
        "User namespaces are forbidden here: the kernel's user.max_user_namespaces is 0."
    ).replace("'python'", f"'{Path(PYTHON[0]).name}'")
    assert namespaces == f"This machine has no sandbox of kind 'namespaces': {why}"
    assert auto == (
        "This machine has no sandbox. bubblewrap: The program bwrap is not installed. "
        f"Install bubblewrap, 0.8 or newer. namespaces: {why} "
        'To run without one, say so: sandbox = { kind = "none" }.'
    )
    assert none is None


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("user/max_user_namespaces", "0", "the kernel's user.max_user_namespaces is 0"),
        ("kernel/unprivileged_userns_clone", "0", "the kernel's kernel.unprivileged_userns_clone is 0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns is 1"),
        ("user/max_user_namespaces", "100", "may be forbidden here"),
    ],
)
def test_the_kernels_own_settings_say_why(tmp_path: Path, setting: str, value: str, says: str) -> None:
    (tmp_path / setting).parent.mkdir()
    (tmp_path / setting).write_text(f"{value}\n")
    assert says in cure_for("namespaces", tmp_path)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"readable": ("/",)}, "A sandbox that shows '/' hides nothing."),
        ({"writable": ("missing",)}, "The sandbox is to show 'missing', which is not there."),
        ({"readable": ("../..",), "kind": "container"}, "needs the command that runs one"),
        ({"kind": "container", "container": ECHO}, "container command lacks {command}."),
        ({"kind": "container", "container": (*ECHO, "{command}"), "memory": 1}, "container command lacks {memory}."),
        (
            {"kind": "container", "container": (*ECHO, "{command}"), "readable": (".",)},
            "Take readable and writable away.",
        ),
        ({"kind": "none", "processes": 3}, "Run the gateway as an ordinary user and with namespaces"),
    ],
)
async def test_what_cannot_be_kept_is_refused(given: dict[str, Any], says: str, booth: Booth) -> None:
    await booth.need("namespaces")
    with pytest.raises(SandboxUnavailable) as refused:
        await booth.plan(SandboxSettings(**given), "pass")
    assert says in refused.value.message


async def test_a_container_is_run_by_the_operators_command(booth: Booth) -> None:
    settings = SandboxSettings(
        kind="container",
        container=(*ECHO, "--name={name}", "--volume={socket}:{socket}", "-m{memory}", "{env}", "image", "{command}"),
        memory=1000,
    )
    plan = await booth.sandboxes.plan(
        settings,
        command=("agent", "--go"),
        env={"PATH": "/bin", "JACKFIELD_TOKEN": "hush"},
        sockets={"JACKFIELD_SOCKET": Path("/data/s")},
        name="session-1",
    )
    child, output = await booth.start(plan)
    said = (await output.read()).decode()
    assert await child.wait() == 0
    assert said == (
        "--name=session-1 --volume=/data/s:/data/s -m1000 --env=JACKFIELD_TOKEN --env=JACKFIELD_SOCKET "
        "image agent --go\n"
    )
    assert (plan.env["JACKFIELD_TOKEN"], plan.env["JACKFIELD_SOCKET"]) == ("hush", "/data/s")
    assert plan.describe_exit(137) == "it was killed by SIGKILL"
