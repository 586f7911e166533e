"""Builds the wheel and the sdist into dist/, and checks them: `make wheel`.

The wheel is built from the unpacked sdist, so both are known to be complete. The console must have been built before:
`make wheel` sees to it. Needs no network.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import sys; from hatchling import build; print(getattr(build, 'build_' + sys.argv[1])(sys.argv[2]))"
PARTS = ("jackfield/", "jackfield-")
CONSOLE = "jackfield/console/dist/"
NEEDED = (
    "jackfield/py.typed",
    "jackfield/store/migrations/0001_calls.sql",
    "jackfield/calls/queries.sql",
    f"{CONSOLE}index.html",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the wheel and the sdist, and check them.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for them (default: dist)")
    out: Path = parser.parse_args().out.resolve()
    if not (ROOT / "src" / CONSOLE / "index.html").is_file():
        return stop(["The console is not built. Install Node.js 20 or newer, then run make wheel again."])
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("jackfield-*.whl"), *out.glob("jackfield-*.tar.gz")]:
        old.unlink()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    sdist = build("sdist", folder=ROOT, out=out)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        wheel = build("wheel", folder=Path(unpacked) / f"jackfield-{version}", out=out)
    faults = faults_of(wheel, version)
    if faults:
        wheel.unlink()
        sdist.unlink()
        return stop(faults)
    for made in (sdist, wheel):
        print(f"{made.relative_to(ROOT) if made.is_relative_to(ROOT) else made}  {made.stat().st_size / 1e6:.1f} MB")
    return 0


def build(kind: str, *, folder: Path, out: Path) -> Path:
    """Run the build backend in `folder`; the file it made."""
    command = [sys.executable, "-c", BUILD, kind, str(out)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return out / done.stdout.splitlines()[-1]


def faults_of(wheel: Path, version: str) -> list[str]:
    """What is wrong with the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(archive.read(f"jackfield-{version}.dist-info/METADATA"))
        page = archive.read(f"{CONSOLE}index.html").decode() if f"{CONSOLE}index.html" in names else ""
    present = set(names)
    source = ROOT / "src"
    written = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    missing = [name for name in NEEDED if name not in present]
    missing += sorted(name for name in written - present if "__pycache__" not in name and name.startswith(PARTS))
    faults = [f"{wheel.name} lacks {name}." for name in dict.fromkeys(missing)]
    faults += [
        f"{wheel.name} has {name}, which does not belong into it."
        for name in names
        if not name.startswith(PARTS) or "/tests/" in name or "__pycache__" in name or "node_modules" in name
    ]
    assets = [name for name in names if name.startswith(f"{CONSOLE}assets/")]
    if not any(name.removeprefix(CONSOLE) in page for name in assets):
        faults.append(f"The console's page in {wheel.name} loads none of its {len(assets)} assets.")
    if metadata["Version"] != version:
        faults.append(f"{wheel.name} says that it is version {metadata['Version']}; pyproject.toml says {version}.")
    return faults


def stop(faults: list[str]) -> int:
    for fault in faults:
        print(f"jackfield: {fault}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
