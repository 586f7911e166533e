"""Tool files for the chaos: one does whatever a tool should not, the other minds its own business."""

HEADER = '# /// script\n# requires-python = ">=3.11"\n# dependencies = []\n# ///\n'

HOSTILE = (
    HEADER
    + """
import asyncio, ctypes, os, signal, sys, time


def polite(token: str) -> str:
    return token


async def polite_later(token: str) -> str:
    await asyncio.sleep(0.01)
    return token


def raises(token: str) -> str:
    raise ValueError(token)


def raises_exit(token: str) -> str:
    sys.exit(token)


def exits(token: str) -> str:
    os._exit(3)


def kills_itself(token: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return token


def segfaults(token: str) -> str:
    ctypes.string_at(0)
    return token


def hangs(token: str) -> str:
    time.sleep(3600)
    return token


async def blocks_everybody(token: str) -> str:
    time.sleep(3600)
    return token


async def ignores_cancellation(token: str) -> str:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


def shouts(token: str) -> str:
    for _ in range(40):
        print("x" * 50_000)
        os.write(2, b"y" * 50_000)
    return token


def scribbles(token: str) -> str:
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'garbage {"id": 1}\\n')
        except OSError:
            pass
    return token


def closes(token: str) -> str:
    os.closerange(3, 256)
    return token


def forks(token: str) -> str:
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    return token


def forks_and_both_answer(token: str) -> str:
    os.fork()
    return token


def ignores_sigterm(token: str) -> str:
    ctypes.CDLL(None).signal(signal.SIGTERM, 1)
    return token


def gives_what_json_cannot_hold(token: str) -> object:
    return {token: object()}


def gives_itself(token: str) -> object:
    endless: list = [token]
    endless.append(endless)
    return endless
"""
)

CALM = (
    HEADER
    + """
async def calm(token: str) -> str:
    return token
"""
)

ANSWERS = frozenset(
    {"polite", "polite_later", "shouts", "forks", "forks_and_both_answer", "ignores_sigterm", "scribbles", "closes"}
)
"""Those that may give their token back. Nobody may give anything else back."""
ACTS = (
    *sorted(ANSWERS),
    "raises",
    "raises_exit",
    "exits",
    "kills_itself",
    "segfaults",
    "hangs",
    "blocks_everybody",
    "ignores_cancellation",
    "gives_what_json_cannot_hold",
    "gives_itself",
)
