"""Every route of a gateway, for tests that go through all of them."""

import atexit
import shutil
import tempfile
from pathlib import Path

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.http.routing import Route
from jackfield.settings import load_settings


def _every_route() -> tuple[Route, ...]:
    folder = Path(tempfile.mkdtemp(prefix="jackfield-routes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = folder / "jackfield.toml"
    config.touch()
    environment = {"JACKFIELD_ADMIN_KEY": "k" * 40, "JACKFIELD_STORE": "memory:"}
    return build_app(Gateway(load_settings(config, environment=environment))).routes


ROUTES = _every_route()
DOCUMENTED = tuple(route for route in ROUTES if not route.is_page)
"""Those of the OpenAPI document; the others are pages for people."""
