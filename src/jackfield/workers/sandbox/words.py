"""How a process ended, in words, and with the limit that ended it.

Above: `kinds.py`, the workers, the sessions. Below: nothing.
"""

import signal

from jackfield.settings.sessions import SandboxSettings

_OUT_OF_MEMORY = ("MemoryError", "Cannot allocate memory", "[Errno 12]", "can't start new thread")
_OUT_OF_FILE = ("File too large", "[Errno 27]")
_OUT_OF_PROCESSES = ("Resource temporarily unavailable", "[Errno 11]", "can't start new thread")


def words_for(code: int, limits: SandboxSettings) -> str:
    """Part of a sentence, `it …`. A code below 0 is minus the number of the signal."""
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


def explained(message: str, limits: SandboxSettings) -> str:
    """A program's own words for a failure, and which limit of its sandbox they may come from."""
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
