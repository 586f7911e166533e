"""docs/operations.md and what `deploy/` has for it: every block is run, nginx and systemd look at their files."""

import base64
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.harness.process import clean_environment, free_port, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
TOOLS = {"tools.py": 'def greet() -> str:\n    """Greets."""\n    return "hello"\n'}
SOURCE = '\n[sources.local]\nkind = "files"\npath = "tools.py"\n'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```\n", PAGE, re.DOTALL)


@requirement("OPS-tour")
def test_every_command_of_the_page_succeeds(tmp_path: Path) -> None:
    (tmp_path / "jackfield").mkdir()
    with running_gateway(tmp_path / "jackfield", SOURCE, files=TOOLS) as gateway:
        script = "".join(blocks("sh")).replace("127.0.0.1:8420", f"127.0.0.1:{gateway.port}")
        ran = subprocess.run(
            ["bash", "-euo", "pipefail"],
            input=script,
            cwd=gateway.folder,
            env=clean_environment({"PATH": f"{Path(sys.executable).parent}:{clean_environment()['PATH']}"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout
        assert (gateway.folder / "restored/tools.py").read_text(encoding="utf-8") == TOOLS["tools.py"]


@requirement("OPS-tour")
def test_the_gateway_serves_on_postgres_with_the_variables_of_the_page(tmp_path: Path, postgres_url: str) -> None:
    (block,) = blocks("ini")
    given = dict(line.split("=", 1) for line in block.splitlines())
    assert given.keys() == {"JACKFIELD_STORE", "JACKFIELD_VAULT_KEY"}
    key = base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("=")
    env = {"JACKFIELD_STORE": postgres_url, "JACKFIELD_VAULT_KEY": key}
    with running_gateway(tmp_path, SOURCE, files=TOOLS, env=env) as gateway:
        assert httpx2.get(f"{gateway.url}/readyz").json()["status"] == "ready"


@requirement("OPS-tour")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = (ROOT / "deploy/systemd/jackfield.service").read_text(encoding="utf-8")
    unit = RawConfigParser()
    unit.read_string(text)
    assert unit["Service"]["ExecStart"] == "/opt/jackfield/bin/jackfield serve"
    if shutil.which("systemd-analyze") is None:
        return
    path = tmp_path / "jackfield.service"
    path.write_text(text.replace("/opt/jackfield/bin/jackfield", str(Path(sys.prefix) / "bin/jackfield")))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "jackfield.service" not in checked.stderr, checked.stderr


def certificate(folder: Path) -> None:
    """For 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tools.example.org")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "jackfield.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "jackfield.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@contextmanager
def nginx_before(folder: Path, port: int) -> Iterator[httpx2.Client]:
    """nginx with the file of `deploy/`, in front of the gateway at this port; a client that talks to it."""
    certificate(folder)
    listen = free_port()
    site = (ROOT / "deploy/nginx/jackfield.conf").read_text(encoding="utf-8")
    site = site.replace("listen 443", f"listen 127.0.0.1:{listen}").replace("/etc/ssl", str(folder))
    site = site.replace("127.0.0.1:8420", f"127.0.0.1:{port}")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{paths}{site}\n}}\n",
        encoding="utf-8",
    )
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            context = ssl.create_default_context(cafile=str(folder / "jackfield.crt"))
            headers = {"host": "tools.example.org"}
            with httpx2.Client(
                base_url=f"https://127.0.0.1:{listen}", verify=context, headers=headers, timeout=30
            ) as client:

                def answers() -> bool:
                    try:
                        return client.get("/healthz").status_code == 200
                    except httpx2.TransportError:
                        return False

                eventually(answers, within=30)
                yield client
        finally:
            process.terminate()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_calls_and_streams_pass_through_nginx_with_tls(tmp_path: Path) -> None:
    (toml,) = blocks("toml")
    proxy = tmp_path / "nginx"
    proxy.mkdir()
    with (
        running_gateway(tmp_path, toml + SOURCE, files=TOOLS) as gateway,
        nginx_before(proxy, gateway.port) as client,
        client.stream("GET", "/api/v1/calls/stream", headers=gateway.headers) as stream,
    ):
        assert stream.status_code == 200
        done = client.post("/api/v1/tools/greet/execute", json={"arguments": {}}, headers=gateway.headers)
        assert done.json()["result"] == "hello"
        assert any("greet" in line for line in stream.iter_lines())
