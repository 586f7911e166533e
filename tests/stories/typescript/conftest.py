"""`@jackfield/client` as npm packs it, installed in a folder beside programs that use it."""

import subprocess
import tarfile
from pathlib import Path
from shutil import copytree, ignore_patterns, which

import pytest

CONSOLE = Path(__file__).parents[3] / "console"
needs_npm = pytest.mark.skipif(
    which("npm") is None or not (CONSOLE / "node_modules/typescript").is_dir(),
    reason="needs Node.js 20 or newer and console/node_modules: make console",
)
TSCONFIG = """{
  "compilerOptions": {
    "target": "ES2022", "lib": ["ES2024", "ESNext.Disposable", "DOM", "DOM.Iterable"], "module": "NodeNext",
    "strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": true, "skipLibCheck": true,
    "verbatimModuleSyntax": true, "types": ["node"], "rootDir": "src", "outDir": "out"
  },
  "include": ["src"]
}
"""


def run(folder: Path, *command: str) -> str:
    """What it prints. Fails with what it said."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install_client(folder: Path) -> None:
    """The package, packed from a copy because other tests may run at the same time, and what compiles programs."""
    package = folder / "packed"
    copytree(CONSOLE / "packages/client", package, ignore=ignore_patterns("dist", "node_modules"))
    modules = folder / "node_modules"
    (modules / "@jackfield").mkdir(parents=True)
    for name in ("typescript", "@typescript", "@types", "undici-types", ".bin"):
        if (CONSOLE / "node_modules" / name).exists():
            (modules / name).symlink_to(CONSOLE / "node_modules" / name)
    run(package, "npm", "pack", "--loglevel=error", "--pack-destination", str(folder))
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        packed.extractall(folder, filter="data")
    (folder / "package").rename(modules / "@jackfield/client")


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, and in `out` the test programs, compiled against it."""
    folder = tmp_path_factory.mktemp("typescript")
    install_client(folder)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "tsconfig.json").write_text(TSCONFIG, encoding="utf-8")
    copytree(CONSOLE / "packages/client/test", folder / "src")
    run(folder, "npx", "--no-install", "tsc", "-p", ".")
    return folder
