"""Entries of the audit log, as they are stored, hashed and exported.

An entry's hash is SHA-256 over the canonical JSON of its other fields and the hash of the entry before it. Canonical
JSON has sorted keys, no white space, and UTF-8 as it is.
"""

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.model.text import Time

STARTED = "gateway.started"
"""The first entry of every chain: `after` has the key of its signatures, and links to the chains before."""


class Entry(Struct, frozen=True, kw_only=True):
    """What happened, for `AuditLog.record`. `before` and `after` hold no secrets."""

    actor: str
    """The name of a principal, `gateway:ID`, or `address:IP` where nobody is known."""
    action: str
    """`key.created`: what it is about, and what was done with it."""
    subject: str
    """The name or id of what it was done to."""
    before: Any = None
    after: Any = None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """An entry on record."""

    id: str
    at: Time
    actor: str
    action: str
    subject: str
    before: Any
    after: Any
    hash: str
    gateway: str
    """Whose chain it is in."""
    number: int
    """Its place there, from 1."""


class Link(Struct, frozen=True, kw_only=True):
    """Names an entry of another chain."""

    gateway: str
    number: int
    hash: str


class Start(Struct, frozen=True, kw_only=True):
    """`after` of a chain's first entry."""

    version: str
    public_key: str
    """Ed25519, in hexadecimal. The private one is in the memory of that gateway and nowhere else."""
    links: tuple[Link, ...]


class Checkpoint(Struct, frozen=True, kw_only=True):
    """Signed where pruning has cut a chain: the entries from 2 to `number` are gone, and this was the last hash."""

    number: int
    hash: str
    at: Time
    signed_by: str
    """The gateway whose key it was."""
    signature: str

    def signed_text(self, gateway: str) -> bytes:
        """What the signature is over; `gateway`: whose chain was cut."""
        fields = {"at": self.at, "gateway": gateway, "hash": self.hash, "number": self.number}
        return canonical({**fields, "signed_by": self.signed_by})


class Chain(Struct, frozen=True, kw_only=True):
    """How far a gateway's chain is: a line of the export, before its entries."""

    gateway: str
    length: int
    head: str
    checkpoint: Checkpoint | UnsetType = UNSET


_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: Any) -> bytes:
    return _encode(value)


def hash_of(entry: AuditEntry, previous: str) -> str:
    """The hash that the entry must have after `previous`; its own is not looked at."""
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "hash"}
    return hashlib.sha256(canonical({**fields, "previous": previous})).hexdigest()


def entry_id(at: int, unique: int) -> str:
    """Ids sort by time."""
    return f"aud_{at:012x}{unique:016x}"
