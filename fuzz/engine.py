"""Fuzzes one target until its time is up: `python -m fuzz.engine NAME LIBFUZZER_ARGS…`. Started by `fuzz.__main__`."""

import sys

import atheris

with atheris.instrument_imports(include=["jackfield"], enable_loader_override=False):
    from fuzz.targets import TARGETS


def main() -> None:
    name, *arguments = sys.argv[1:]
    target = TARGETS[name]
    sys.setrecursionlimit(1000)  # as in the gateway
    atheris.Setup([sys.argv[0], *arguments], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
