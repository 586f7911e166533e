"""The chain that one gateway writes: scripts that add to it, begin it, and cut what is too old.

Above: every transaction that changes something worth knowing (`yield from log.record(...)`, as its last step, so that
the entry commits with the change), and the gateway, which begins and ends its chain. Below: rows of the store.

The row of the chain is locked from `record` to the commit. A script comes to it last, after all other rows, as
`store/postgres_batches.py` provides for; so nobody waits in a circle, and who is not audited waits for nobody.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import SystemRandom
from typing import Any, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jackfield import __version__
from jackfield.audit.cleaning import clean_json, clean_name
from jackfield.audit.types import STARTED, AuditEntry, Checkpoint, Entry, Link, Start, canonical, entry_id, hash_of
from jackfield.errors import Unavailable
from jackfield.model.text import iso_time
from jackfield.store import Store
from jackfield.store.scripts import Row, Script, one, run

T = TypeVar("T")
_random = SystemRandom()


class AuditLog:
    """Writes the chain of one gateway."""

    def __init__(self, gateway_id: str, *, redact: Callable[[str], str] = str) -> None:
        """`redact`: takes known secrets out of a text."""
        self.gateway_id = gateway_id
        self.actor = f"gateway:{gateway_id}"
        """Who acts where no principal does."""
        self._redact = redact
        self._key = Ed25519PrivateKey.generate()

    def record(self, *entries: Entry) -> Script[None]:
        """Add entries to the chain. The last step of a script: what follows may only be `wake`."""
        if not entries:
            return
        chain = yield from self._lock(self.gateway_id)
        if chain is None:
            raise Unavailable(
                f"The audit log of this gateway ({self.gateway_id}) is gone from the database, so nothing can be "
                "changed. Find out who removed it, and restart the gateway."
            )
        yield from self._append(chain, [self._cleaned(entry) for entry in entries])

    def noting(self, script: Callable[[], Script[T]], entry_of: Callable[[T], Entry | None]) -> Callable[[], Script[T]]:
        """The script, with an entry made of its result; None: nothing has changed."""
        return partial(self._noted, script, entry_of)

    def _noted(self, script: Callable[[], Script[T]], entry_of: Callable[[T], Entry | None]) -> Script[T]:
        result = yield from script()
        entry = entry_of(result)
        if entry is not None:
            yield from self.record(entry)
        return result

    def begin(self) -> Script[None]:
        """Begin the chain. Its first entry names the heads of all chains that no other one has named."""
        rows = yield from run("lock_unlinked_audit_chains")
        links = tuple(Link(gateway=row["id"], number=row["length"], hash=row["head"]) for row in rows)
        for link in links:
            yield "link_audit_chain", {"audit_gateway": link.gateway, "length": link.number}
        made = yield from one("insert_audit_chain", audit_gateway=self.gateway_id)
        assert made is not None
        public_key = self._key.public_key().public_bytes_raw().hex()
        start = canonical(Start(version=__version__, public_key=public_key, links=links)).decode()
        chain = {"length": 0, "head": "", "head_at": 0, "now": made["now"]}
        yield from self._append(chain, [(self.actor, STARTED, self.gateway_id, "null", start)])

    def prune(self, *, before: int, limit: int) -> Script[int]:
        """Delete one step of the entries that are older than `before`, of one chain; how many."""
        found = yield from one("old_audit_chain", before_id=entry_id(before, 0))
        if found is not None:
            return (yield from self._cut(found["gateway"], before=before, limit=limit))
        found = yield from one("finished_audit_chain", before=before)
        if found is not None:
            yield from self._finish(found["id"])
            return 1
        yield "delete_empty_audit_chains", {"before": before}
        return 0

    def _lock(self, gateway: str) -> Script[Row | None]:
        return (yield from one("lock_audit_chain", audit_gateway=gateway))

    def _append(self, chain: Row | Mapping[str, Any], entries: list[tuple[str, str, str, str, str]]) -> Script[None]:
        number, head = int(chain["length"]), str(chain["head"])
        at = max(int(chain["now"]), int(chain["head_at"]))
        for actor, action, subject, before, after in entries:
            number += 1
            values = {"actor": actor, "action": action, "subject": subject, "gateway": self.gateway_id}
            entry = AuditEntry(
                **values,
                id=entry_id(at, (number << 32) | _random.getrandbits(32)),
                at=iso_time(at),
                before=msgspec.json.decode(before),
                after=msgspec.json.decode(after),
                hash="",
                number=number,
            )
            head = hash_of(entry, head)
            own = {"number": number, "id": entry.id, "at": at, "before": before, "after": after, "hash": head}
            yield "insert_audit", {**values, **own}
        yield "move_audit_head", {"audit_gateway": self.gateway_id, "length": number, "head": head, "at": at}

    def _cleaned(self, entry: Entry) -> tuple[str, str, str, str, str]:
        names = (clean_name(text, self._redact) for text in (entry.actor, entry.action, entry.subject))
        actor, action, subject = names
        return actor, action, subject, clean_json(entry.before, self._redact), clean_json(entry.after, self._redact)

    def _cut(self, gateway: str, *, before: int, limit: int) -> Script[int]:
        chain = yield from self._lock(gateway)
        first = yield from one("next_audit_number", gateway=gateway)
        if chain is None or first is None:  # another gateway was faster
            return 0
        last = yield from one("last_old_audit", gateway=gateway, before=before, most=first["number"] + limit - 1)
        if last is None:
            return 0
        yield from self._sign(chain, gateway, last["number"], last["hash"])
        yield "delete_audit_up_to", {"gateway": gateway, "number": last["number"]}
        return int(last["number"] - first["number"] + 1)

    def _finish(self, gateway: str) -> Script[None]:
        chain = yield from self._lock(gateway)
        if chain is not None:
            yield from self._sign(chain, gateway, chain["length"], chain["head"])
            yield "delete_first_audit", {"gateway": gateway}

    def _sign(self, chain: Row, gateway: str, number: int, last: str) -> Script[None]:
        at = int(chain["now"])
        cut = Checkpoint(number=number, hash=last, at=iso_time(at), signed_by=self.gateway_id, signature="")
        signature = self._key.sign(cut.signed_text(gateway)).hex()
        signed = {"number": number, "hash": last, "at": at, "signed_by": self.gateway_id, "signature": signature}
        yield "cut_audit_chain", {"audit_gateway": gateway, **signed}


async def prune_audit(log: AuditLog, store: Store, *, keep_days: float, limit: int) -> int:
    """Delete one step of what is older than `keep_days`; how many entries went."""
    before = max(await store.now_ms() - int(keep_days * 86_400_000), 0)
    return await store.write(partial(log.prune, before=before, limit=limit))
