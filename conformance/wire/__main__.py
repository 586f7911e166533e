"""`python -m conformance.wire CHECKOUT`, or `--compare OLD NEW [--texts]`. Differences make the exit code 1."""

import json
import sys
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.wire.comparison import differences, schema_names
from conformance.wire.project import serving
from conformance.wire.requests import request_all
from conformance.wire.snapshot import Snapshot


def main() -> int:
    parser = ArgumentParser(prog="python -m conformance.wire", description="What a gateway says on the wire, as JSON.")
    parser.add_argument("checkout", nargs="?", type=Path, help="a checkout with its .venv")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="two snapshots, or checkouts")
    parser.add_argument("--texts", action="store_true", help="also show which sentences for people are worded anew")
    options = parser.parse_args()
    if options.compare:
        old, new = (_snapshot(path) for path in options.compare)
        return _compare(old, new, texts=options.texts)
    if options.checkout is None:
        parser.error("name a checkout, or --compare two snapshots")
    print(json.dumps(_snapshot(options.checkout), indent=1, ensure_ascii=False, sort_keys=True))
    return 0


def _snapshot(path: Path) -> dict[str, object]:
    if path.is_file():
        read: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        return read
    with (
        TemporaryDirectory(prefix="jackfield-wire-", ignore_cleanup_errors=True) as folder,
        serving(path.resolve(), Path(folder) / "project") as url,
        closing(Snapshot(url)) as snapshot,
    ):
        return request_all(snapshot)


def _compare(old: dict[str, object], new: dict[str, object], *, texts: bool) -> int:
    hard, reworded = differences(old, new)
    for line in hard:
        print(line)
    if texts:
        print(*reworded, sep="\n")
        lost, gained = schema_names(old, new)
        print("Schema names gone:", *sorted(lost))
        print("Schema names new:", *sorted(gained))
    print(f"{len(hard)} differences; {len(reworded)} sentences for people worded anew")
    return 1 if hard else 0


if __name__ == "__main__":
    sys.exit(main())
