"""How the console is served: its policy, its files, and the modules of the config's folder."""

import re

import httpx2
import pytest

from jackfield.console.api import is_built
from tests.console.scene import HUSAM_KEY
from tests.harness.process import RunningGateway

needs_built = pytest.mark.skipif(
    not is_built(), reason="the console is not built: install Node.js 20 or newer, then make console"
)


@needs_built
def test_the_page_is_asked_for_each_time_and_its_files_are_kept_for_ever(stage: RunningGateway) -> None:
    page = httpx2.get(f"{stage.url}/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-cache"
    assert re.search(r"<script(?![^>]*src=)", page.text) is None, "no script stands in the page itself"
    for name in re.findall(r"/assets/[^\"]+", page.text):
        asset = httpx2.get(stage.url + name, headers={"accept-encoding": "gzip"})
        assert asset.status_code == 200
        assert "immutable" in asset.headers["cache-control"]
        assert len(asset.content) < 1_000 or asset.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("name", ["nothing.js", "..%2Findex.html", "%2e%2e%2fconsole.py", "x.html", "a" * 200 + ".js"])
def test_no_other_file_is_given_out(stage: RunningGateway, name: str) -> None:
    assert httpx2.get(f"{stage.url}/assets/{name}").status_code == 404
    answer = httpx2.get(f"{stage.url}/api/console/tools/{name}", headers={"x-api-key": HUSAM_KEY})
    assert answer.status_code == 404


def test_the_folder_s_modules_are_for_those_who_are_signed_in(stage: RunningGateway) -> None:
    address = f"{stage.url}/api/console/tools"
    assert httpx2.get(address).status_code == 401
    assert httpx2.get(f"{address}/weather.js").status_code == 401
    listed = httpx2.get(address, headers={"x-api-key": HUSAM_KEY}).json()
    assert listed == {"modules": ["/api/console/tools/broken.js", "/api/console/tools/weather.js"]}
    module = httpx2.get(f"{address}/weather.js", headers={"x-api-key": HUSAM_KEY})
    assert module.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "registerTool" in module.text
    assert httpx2.get(f"{address}/notes.txt", headers={"x-api-key": HUSAM_KEY}).status_code == 404
