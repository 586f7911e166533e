"""Builds and checks everything a release consists of, into dist/: `make release`.

The wheel and the sdist (make/wheel.py), the packages for npm, what a container image is built from, and a list of
checksums. First it is checked that all of them have the same version. Publishes nothing.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NPM = (ROOT / "console/packages/client", ROOT / "console/packages/react")
IMAGE = "deploy/Dockerfile"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and check everything a release consists of.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for it (default: dist)")
    out: Path = parser.parse_args().out.resolve()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    faults = version_faults(version)
    if faults:
        return stop(faults)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if subprocess.run([sys.executable, ROOT / "make/wheel.py", "--out", out], check=False).returncode:  # noqa: S603
        return 1
    for package in NPM:
        faults += npm_faults(npm_pack(package, out), version)
    faults += image_faults(image_files(out / f"jackfield-{version}-image.tar.gz"))
    if faults:
        return stop(faults)
    made = sorted(path for path in out.iterdir() if path.is_file())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    for path in made:
        print(f"{path.name}  {path.stat().st_size / 1e6:.1f} MB")
    print(f"Everything of version {version} is in {out}, with SHA256SUMS. Nothing was published.")
    return 0


def version_faults(version: str) -> list[str]:
    """Where another version is named than in pyproject.toml."""
    named = {
        f"{package.relative_to(ROOT)}/package.json": read_json(package / "package.json")["version"] for package in NPM
    }
    for name in (IMAGE, "deploy/compose.yaml", "deploy/kubernetes/gateway.yaml"):
        for found in re.findall(r"jackfield:(\d[\w.]*)", (ROOT / name).read_text(encoding="utf-8")):
            named[name] = found
    faults = [
        f"{name} says {other}; pyproject.toml says {version}." for name, other in named.items() if other != version
    ]
    if f"## {version}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        faults.append(f"CHANGELOG.md has no section '## {version}'.")
    return faults


def npm_pack(package: Path, out: Path) -> Path:
    """What `npm publish` would send."""
    if not shutil.which("npm"):
        raise SystemExit("jackfield: npm not found. Install Node.js 20 or newer, then run make release again.")
    command = ["npm", "pack", "--loglevel=error", "--json", "--pack-destination", str(out)]
    done = subprocess.run(command, cwd=package, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return out / re.findall(r'"filename": "([^"]+)"', done.stdout)[-1].replace("/", "-").removeprefix("@")


def npm_faults(packed: Path, version: str) -> list[str]:
    """What is wrong with a package for npm: a path that it exports and does not have, or sources that it should not."""
    with tarfile.open(packed) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
        said = json.load(archive.extractfile("package/package.json") or sys.exit(1))
    exported = re.findall(
        r'"\./([^"]+\.(?:js|ts|d\.ts))"', json.dumps([said.get("exports"), said.get("types"), said.get("main")])
    )
    faults = [f"{packed.name} exports {name}, which it does not have." for name in exported if name not in names]
    faults += [f"{packed.name} lacks {name}." for name in ("README.md",) if name not in names]
    faults += [
        f"{packed.name} has {name}, which does not belong into it."
        for name in names
        if "node_modules/" in name or "/test/" in f"/{name}"
    ]
    if said["version"] != version:
        faults.append(f"{packed.name} says that it is version {said['version']}.")
    return faults


def image_files(archive: Path) -> Path:
    """What `docker build` needs, as .dockerignore admits it, with deploy/ beside it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S607
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    admitted = [line.removeprefix("!") for line in lines if line.startswith("!")] + ["deploy", ".dockerignore"]
    with tarfile.open(archive, "w:gz") as written:
        for name in listed.stdout.split("\0"):
            if any(name == one or name.startswith(f"{one}/") for one in admitted):
                written.add(ROOT / name, name)
    return archive


def image_faults(archive: Path) -> list[str]:
    """What the Dockerfile copies and the archive does not have."""
    with tarfile.open(archive) as opened:
        names = opened.getnames()
        dockerfile = (opened.extractfile(IMAGE) or sys.exit(1)).read().decode()
    copied = [source for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", dockerfile) for source in line.split()[:-1]]
    return [
        f"{archive.name} lacks {source}, which {IMAGE} copies."
        for source in copied
        if not any(name == source or fnmatch(name, f"{source}/*") for name in names)
    ]


def read_json(path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found


def stop(faults: list[str]) -> int:
    for fault in faults:
        print(f"jackfield: {fault}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
