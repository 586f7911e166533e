"""The Dockerfile, compose and Kubernetes files of `deploy/`: what they name exists, and a gateway takes what they give.

No container engine runs here. By hand, after a change: `make image`, which lints, validates, and builds without one.
"""

import base64
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2
import yaml

from jackfield import __version__
from jackfield.cli.work import work
from jackfield.gateway.metrics import METRICS
from tests.harness.process import running_gateway
from tests.requirement import requirement

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
IMAGE = f"jackfield:{__version__}"
SECRETS = {"POSTGRES_PASSWORD", "PGPASSWORD", "JACKFIELD_ADMIN_KEY", "JACKFIELD_VAULT_KEY", "JACKFIELD_STORE"}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions in their order."""
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, rest in lines]


def manifests() -> dict[str, Any]:
    """The Kubernetes resources by kind."""
    found: dict[str, Any] = {}
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            assert one["kind"] not in found
            found[one["kind"]] = one
    return found


def container() -> Any:
    (one,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


@requirement("OPS-container")
def test_the_image_has_no_root_no_secret_and_a_health_check() -> None:
    last = max(number for number, (word, _) in enumerate(instructions()) if word == "FROM")
    final = instructions()[last:]
    assert [rest for word, rest in final if word == "USER"] == ["10001:10001"]
    (check,) = [rest for word, rest in final if word == "HEALTHCHECK"]
    assert "/healthz" in check
    assert [rest for word, rest in final if word in {"ENTRYPOINT", "CMD"}] == ['["jackfield"]', '["serve"]']
    given = " ".join(rest for word, rest in instructions() if word in {"ENV", "ARG"})
    assert [name for name in SECRETS if name in given] == []
    for image in (rest.split()[0] for word, rest in instructions() if word == "FROM"):
        assert re.fullmatch(r"[a-z]+:\d[\w.-]+", image), f"{image} has no version"


@requirement("OPS-container")
def test_what_the_image_is_made_of_exists_and_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    admitted = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for word, rest in instructions():
        if word != "COPY" or rest.startswith("--from"):
            continue
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(fnmatch(source, pattern) for pattern in admitted), f"{source} is kept out by .dockerignore"
    assert "**/node_modules" in ignored
    assert "**/.jackfield" in ignored


@requirement("OPS-container")
def test_compose_has_no_secret_and_a_gateway_that_writes_nowhere_else() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    gateway = services["gateway"]
    assert (gateway["image"], gateway["read_only"], gateway["cap_drop"]) == (IMAGE, True, ["ALL"])
    assert (DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]).is_file()
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])
    for service in services.values():
        for name, value in service["environment"].items():
            if name in SECRETS - {"JACKFIELD_STORE"}:
                assert value.startswith("${"), f"{name} is in the file"
    assert ":" not in gateway["environment"]["JACKFIELD_STORE"].split("//")[1], "no password in the url"


@requirement("OPS-container")
def test_the_pods_may_do_no_more_than_they_need() -> None:
    spec = manifests()["Deployment"]["spec"]
    pod, gateway = spec["template"]["spec"], container()
    assert spec["replicas"] >= 2
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert manifests()["Service"]["spec"]["selector"] == spec["template"]["metadata"]["labels"]
    assert manifests()["Service"]["spec"]["ports"][0]["targetPort"] == gateway["ports"][0]["name"]
    assert gateway["image"] == IMAGE
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert gateway["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= gateway["resources"].keys()
    assert {volume["name"] for volume in pod["volumes"]} == {mount["name"] for mount in gateway["volumeMounts"]}
    assert all("value" not in one for one in gateway["env"] if one["name"] in SECRETS), "secrets come from the secret"


@requirement("OPS-container")
def test_a_gateway_takes_the_config_and_the_secret_and_answers_the_probes(tmp_path: Path, postgres_url: str) -> None:
    config = manifests()["ConfigMap"]["data"]["jackfield.toml"]
    secret = {
        "store": postgres_url,
        "admin-key": "the-admin-key-of-the-secret",
        "vault-key": base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("="),
    }
    env = {
        one["name"]: one.get("value") or secret[one["valueFrom"]["secretKeyRef"]["key"]] for one in container()["env"]
    }
    with running_gateway(tmp_path, config, env=env) as gateway:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container()[name]["httpGet"]
            headers = {one["name"]: one["value"] for one in asked["httpHeaders"]}
            assert httpx2.get(gateway.url + asked["path"], headers=headers).status_code == 200, name
        public = tomllib.loads(config)["server"]["public_url"].removeprefix("https://")
        for host in (public, "jackfield"):
            answer = httpx2.get(f"{gateway.url}/api/v1/tools", headers={"host": host, "x-api-key": secret["admin-key"]})
            assert answer.status_code == 200, host


@requirement("SCALE-work-deploy")
def test_workers_are_confined_and_scale_by_metrics_that_exist() -> None:
    workers = DEPLOY / "kubernetes/workers"
    deployment = yaml.safe_load((workers / "work.yaml").read_text(encoding="utf-8"))
    scaled = yaml.safe_load((workers / "keda.yaml").read_text(encoding="utf-8"))["spec"]
    pod = deployment["spec"]["template"]["spec"]
    (one,) = pod["containers"]
    assert one["image"] == IMAGE
    assert one["securityContext"] == container()["securityContext"]
    assert pod["securityContext"] == manifests()["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    assert all("value" not in named for named in one["env"] if named["name"] == "JACKFIELD_KEY")
    command, *words = one["args"]
    options = work.read(command, words)
    assert (command, options.name, options.concurrency) == ("work", "work", 16)
    assert options.url == f"http://{manifests()['Service']['metadata']['name']}"
    assert scaled["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    query = scaled["triggers"][0]["metadata"]["query"]
    asked = set(re.findall(r"jackfield_\w+", query))
    assert asked <= {metric.name for metric in METRICS}
    assert set(re.findall(r'source="(\w+)"', query)) == {options.name}
