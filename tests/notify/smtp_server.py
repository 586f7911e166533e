"""A small SMTP server in the test's own process: takes mail, can speak TLS, ask for a login, and refuse."""

import asyncio
import base64
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class SmtpReceiver:
    """What was handed in, and how the server answers."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.port = 0
        self.mails: list[bytes] = []
        self.logins: list[str] = []
        self.encrypted: list[bool] = []
        self.answers: dict[str, str] = {}
        """What a command is answered with in place of success, by its first word."""
        self._tls = tls

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(text: str) -> None:
            writer.write(text.encode() + b"\r\n")
            await writer.drain()

        is_tls = False
        await say("220 test ESMTP")
        while line := await reader.readline():
            word = line.split()[0].upper().decode()
            if word in self.answers:
                await say(self.answers[word])
            elif word == "EHLO":
                offers = ["250-test", *(["250-STARTTLS"] if self._tls and not is_tls else []), "250 AUTH PLAIN"]
                await say("\r\n".join(offers))
            elif word == "STARTTLS" and self._tls is not None:
                await say("220 go on")
                await writer.start_tls(self._tls)
                is_tls = True
            elif word == "AUTH":
                self.logins.append(base64.b64decode(line.split()[2]).decode())
                await say("235 welcome")
            elif word == "DATA":
                await say("354 go on")
                body = await reader.readuntil(b"\r\n.\r\n")
                self.mails.append(body.removesuffix(b".\r\n"))
                self.encrypted.append(is_tls)
                await say("250 taken")
            elif word == "QUIT":
                await say("221 bye")
                break
            else:
                await say("250 fine")
        writer.close()


@asynccontextmanager
async def smtp_receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[SmtpReceiver]:
    receiver = SmtpReceiver(tls)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context for 127.0.0.1, and the file that whoever trusts it needs."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, secret)
    return context, chain
