"""The kinds of sandbox: how each starts a program with a given view, and how its end reads.

Above: `sandboxes.py`. Below: `view.py`; the supervisor starts the resulting `LaunchPlan`.
"""

import math
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from jackfield.errors import CouldNotStart
from jackfield.settings.types import SandboxSettings
from jackfield.workers.supervision.messages import (
    FIRST_TEXT_FD,
    Confinement,
    Mount,
    Namespaces,
    ResourceLimits,
    Wrapper,
)
from jackfield.workers.supervision.namespaces import (
    HIDDEN_IN_PROC,
    HOST_NAME,
    READ_ONLY_IN_PROC,
    USER_FOR_ROOT,
)
from jackfield.workers.supervisor import Child, Supervisor

Kind = Literal["bubblewrap", "namespaces", "container", "none"]
CLIENT_PREFIXES = ("XDG_", "DOCKER_", "CONTAINER_", "PODMAN_")
CLIENT_NAMES = frozenset({"PATH", "HOME", "LANG", "TMPDIR"})
SIGNALLED = 128
"""Like shells, bubblewrap and containers exit with this plus the signal's number."""


class SandboxUnavailable(CouldNotStart):
    """The machine or the config does not allow the requested sandbox."""

    code = "sandbox_unavailable"


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """How the supervisor starts a program, sandboxed or not."""

    kind: Kind
    command: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    confinement: Confinement | None = None
    limits: SandboxSettings = SandboxSettings(kind="none")

    async def start(self, supervisor: Supervisor, *, stdin: int, stdout: int, stderr: int) -> Child:
        fds = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        return await supervisor.spawn(self.command, env=self.env, cwd=self.cwd, **fds, confinement=self.confinement)

    def describe_exit(self, code: int) -> str:
        """How it ended, as part of a sentence: `it exited with code 3`."""
        is_signal = self.kind in ("bubblewrap", "container") and code > SIGNALLED
        return describe_exit(SIGNALLED - code if is_signal else code, self.limits)

    def explain_failure(self, message: str) -> str:
        """The program's error message, with the limit that may have caused it."""
        return explain_failure(message, self.limits)


def plain(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> LaunchPlan:
    """Without any sandbox."""
    return LaunchPlan(kind="none", command=tuple(command), env=dict(env), cwd=cwd)


def limited(plan: LaunchPlan, settings: SandboxSettings) -> LaunchPlan:
    """`none`: only the limits, if any."""
    return replace(plan, limits=settings, confinement=Confinement(limits=_limits(settings), gains_privileges=True))


def in_namespaces(plan: LaunchPlan, settings: SandboxSettings, *, view: list[Mount]) -> LaunchPlan:
    namespaces = Namespaces(mounts=view, scratch=settings.scratch, network=settings.network)
    confinement = Confinement(limits=_limits(settings), gains_privileges=False, namespaces=namespaces)
    return replace(plan, kind="namespaces", limits=settings, confinement=confinement)


def in_bubblewrap(plan: LaunchPlan, settings: SandboxSettings, *, view: list[Mount], bwrap: str) -> LaunchPlan:
    """`bwrap` may be setuid, so it may gain privileges; it takes them from the program."""
    words = [bwrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if settings.network else ["--unshare-net"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", HOST_NAME]
    if os.geteuid() == 0:
        words += ["--uid", str(USER_FOR_ROOT), "--gid", str(USER_FOR_ROOT)]
    words += ["--disable-userns", "--dev", "/dev"]
    texts: list[str] = []
    for mount in view:
        words += _bubblewrap_options(mount, scratch=settings.scratch, text_fd=FIRST_TEXT_FD + len(texts))
        texts += [mount["source"]] if mount["kind"] == "text" else []
    for at in ("/dev", *(mount["at"] for mount in view if mount["kind"] == "empty"), "/"):
        words += ["--remount-ro", at]
    return replace(
        plan,
        kind="bubblewrap",
        command=(*words, "--chdir", str(plan.cwd), "--", *plan.command),
        cwd=Path("/"),
        limits=settings,
        confinement=Confinement(limits=_limits(settings), gains_privileges=True, wrapper=Wrapper(texts=texts)),
    )


def in_container(
    plan: LaunchPlan, settings: SandboxSettings, *, name: str, socket: Path | None, ours: Mapping[str, str]
) -> LaunchPlan:
    """From the operator's command. Settings that it has no placeholder for are refused."""
    template = settings.container
    values = {"{name}": name, "{socket}": "" if socket is None else str(socket)}
    values |= {f"{{{key}}}": str(value) for key, value in _limits(settings).items()}
    required = {
        "{command}",
        *(f"{{{key}}}" for key in ("memory", "cpu", "file_size", "processes") if getattr(settings, key)),
    }
    required |= {"{socket}"} if socket is not None else set()
    missing = sorted(word for word in required if not any(word in part for part in template))
    if missing:
        raise SandboxUnavailable(
            f"The sandbox's container command lacks {', '.join(missing)}. Add it where it belongs."
        )
    if settings.readable or settings.writable:
        raise SandboxUnavailable("A container's folders are named in its command. Take readable and writable away.")
    words: list[str] = []
    for part in template:
        if part == "{command}":
            words += plan.command
        elif part == "{env}":
            words += [f"--env={key}" for key in plan.env if key not in CLIENT_NAMES]
        else:
            for word, value in values.items():
                part = part.replace(word, value)  # noqa: PLW2901 - one after the other
            words.append(part)
    env = {key: value for key, value in ours.items() if key in CLIENT_NAMES or key.startswith(CLIENT_PREFIXES)}
    env |= {key: value for key, value in plan.env.items() if key not in CLIENT_NAMES}
    return replace(plan, kind="container", command=tuple(words), env=env, cwd=Path("/"), limits=settings)


def _bubblewrap_options(mount: Mount, *, scratch: int, text_fd: int) -> list[str]:
    at, source = mount["at"], mount["source"]
    if at.startswith("/dev/") and mount["kind"] != "private":
        return []  # made by --dev
    options = {
        "read": ["--ro-bind", source, at],
        "write": ["--bind", source, at],
        "private": ["--perms", "0700", "--size", str(scratch), "--tmpfs", at],
        "empty": ["--tmpfs", at],
        "device": ["--dev-bind", source, at],
        "text": ["--perms", "0644", "--ro-bind-data", str(text_fd), at],
        "link": ["--symlink", source, at],
    }
    return _proc_options(at) if mount["kind"] == "proc" else options[mount["kind"]]


def _proc_options(at: str) -> list[str]:
    """Bubblewrap alone leaves parts writable that root may write even without any capability."""
    options = ["--proc", at]
    for name in READ_ONLY_IN_PROC:
        options += ["--ro-bind-try", f"/proc/{name}", f"{at}/{name}"]
    for name in HIDDEN_IN_PROC:
        options += ["--dev-bind", "/dev/null", f"{at}/{name}"] if Path("/proc", name).exists() else []
    return options


def _limits(settings: SandboxSettings) -> ResourceLimits:
    return ResourceLimits(
        memory=settings.memory,
        cpu=math.ceil(settings.cpu),
        file_size=settings.file_size,
        processes=settings.processes,
    )


_OUT_OF_MEMORY = ("MemoryError", "Cannot allocate memory", "[Errno 12]", "can't start new thread")
_OUT_OF_FILE = ("File too large", "[Errno 27]")
_OUT_OF_PROCESSES = ("Resource temporarily unavailable", "[Errno 11]", "can't start new thread")


def describe_exit(code: int, limits: SandboxSettings) -> str:
    """How a process ended, as part of a sentence: `it exited with code 3`. A negative code is a signal."""
    if code >= 0:
        return f"it exited with code {code}"
    if code == -signal.SIGXCPU and limits.cpu:
        return f"it used more than the {limits.cpu:g} s of CPU time that its sandbox allows"
    if code == -signal.SIGXFSZ and limits.file_size:
        return f"it wrote a file of more than the {_size(limits.file_size)} that its sandbox allows"
    try:
        said = f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        said = f"it was killed by signal {-code}"
    if limits.memory and code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
        return f"{said}, perhaps because its sandbox allows it {_size(limits.memory)} of memory"
    return said


def explain_failure(message: str, limits: SandboxSettings) -> str:
    """A program's error message, and the limit of its sandbox that may have caused it."""
    if limits.memory and any(mark in message for mark in _OUT_OF_MEMORY):
        return f"{message} (its sandbox allows it {_size(limits.memory)} of memory)"
    if limits.file_size and any(mark in message for mark in _OUT_OF_FILE):
        return f"{message} (its sandbox allows it files of up to {_size(limits.file_size)})"
    if limits.processes and any(mark in message for mark in _OUT_OF_PROCESSES):
        return f"{message} (its sandbox allows it processes and threads up to {limits.processes})"
    if not limits.network and limits.kind != "none" and "[Errno 101]" in message:
        return f"{message} (its sandbox has no network)"
    return message


def _size(count: int) -> str:
    for unit, name in ((1_073_741_824, "GB"), (1_048_576, "MB"), (1_024, "kB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} bytes"
