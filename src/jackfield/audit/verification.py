"""Checks an export of the audit log, without the gateway and without its database.

Above: `jackfield audit --verify`. Two readings of the lines, and memory for a line per chain: the first collects what
chains say of each other, the second follows each chain from hash to hash.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET, Struct, UnsetType

from jackfield.audit.types import STARTED, AuditEntry, Chain, Checkpoint, Link, Start, hash_of
from jackfield.protocol.json_bodies import UNREADABLE

MOST_FAULTS = 100


class Verified(Struct, frozen=True, kw_only=True):
    """What came out."""

    entries: int
    chains: int
    checkpoints: int
    faults: tuple[str, ...]
    """What was changed, removed or forged; the first of very many."""
    heads: tuple[Link, ...]
    """The last entries of the chains that no other one names: to be noted somewhere else."""


class _Line(Struct, frozen=True, kw_only=True):
    """A line of the export: an entry has an id, a chain has none."""

    gateway: str
    id: str | UnsetType = UNSET
    number: int = 0
    action: str = ""


class _Progress:
    """Where the second reading is in one chain."""

    __slots__ = ("chain", "hash", "is_broken", "number")

    def __init__(self) -> None:
        self.chain: Chain | None = None
        self.number = 0
        self.hash = ""
        self.is_broken = False


def verify(lines: Callable[[], Iterable[bytes]], *, heads: Sequence[str] = ()) -> Verified:
    """Check an export; `lines` gives its lines anew each time. `heads`: hashes that were noted and must be in it."""
    return _Verification(lines, heads).run()


class _Verification:
    """One run."""

    def __init__(self, lines: Callable[[], Iterable[bytes]], heads: Sequence[str]) -> None:
        self._lines = lines
        self._wanted = {head.strip().lower() for head in heads}
        self._faults: list[str] = []
        self._starts: dict[str, Start] = {}
        self._links: dict[tuple[str, int], dict[str, str]] = {}
        """By what they name: the hashes that are said, and by whom."""
        self._linked: dict[str, int] = {}
        """How much of each chain others name."""
        self._progress: dict[str, _Progress] = {}
        self._entries = 0
        self._checkpoints = 0

    def run(self) -> Verified:
        for line in self._read(complains=True):
            self._note_start(line)
        for line in self._read(complains=False):
            self._follow(line)
        if not self._progress:
            self._fault("The export has no entries: all of it was removed, or it is not an export of the audit log.")
        for gateway, progress in self._progress.items():
            self._check_end(gateway, progress)
        self._check_links()
        for head in sorted(self._wanted):
            self._fault(
                f"The noted head {head} is not in the log: the entries up to it, or more, were removed or "
                "written anew. (A head from before the last pruning is not there either.)"
            )
        return Verified(
            entries=self._entries,
            chains=len(self._progress),
            checkpoints=self._checkpoints,
            faults=tuple(self._faults),
            heads=tuple(
                Link(gateway=gateway, number=progress.number, hash=progress.hash)
                for gateway, progress in self._progress.items()
                if progress.number > self._linked.get(gateway, 0)
            ),
        )

    def _read(self, *, complains: bool) -> Iterator[AuditEntry | Chain]:
        for number, line in enumerate(self._lines(), 1):
            if not line.strip():
                continue
            try:
                if msgspec.json.decode(line, type=_Line).id is UNSET:
                    yield msgspec.json.decode(line, type=Chain)
                else:
                    yield msgspec.json.decode(line, type=AuditEntry)
            except UNREADABLE:
                if complains:
                    self._fault(f"Line {number} is neither an entry nor a chain. It was changed, or the file was cut.")

    def _note_start(self, line: AuditEntry | Chain) -> None:
        if isinstance(line, Chain) or line.number != 1:
            return None
        try:
            start = msgspec.convert(line.after, Start)
        except msgspec.ValidationError:
            return self._fault(f"{_place(line)} was changed: it does not begin a chain.")
        if line.action != STARTED:
            return self._fault(f"{_place(line)} was changed: it is not '{STARTED}'.")
        self._starts[line.gateway] = start
        for link in start.links:
            self._linked[link.gateway] = max(link.number, self._linked.get(link.gateway, 0))
            self._links.setdefault((link.gateway, link.number), {})[link.hash] = line.gateway
        return None

    def _follow(self, line: AuditEntry | Chain) -> None:
        progress = self._progress.get(line.gateway)
        if progress is None:
            progress = self._progress[line.gateway] = _Progress()
            if isinstance(line, AuditEntry):
                self._fault(
                    f"The chain {line.gateway} has no line of its own before its first entry: the export has a filter, "
                    "or lines were removed. Verify a whole export."
                )
        if isinstance(line, Chain):
            self._take_chain(line, progress)
        else:
            self._take_entry(line, progress)

    def _take_chain(self, line: Chain, progress: _Progress) -> None:
        progress.chain = line
        cut = line.checkpoint
        if isinstance(cut, UnsetType):
            return
        if not self._is_signed(line.gateway, cut):
            self._fault(
                f"The checkpoint of the chain {line.gateway} at entry {cut.number} is not signed by the gateway "
                f"{cut.signed_by or 'that pruned it'}: entries were removed by somebody else, or it was changed."
            )
        self._checkpoints += 1

    def _is_signed(self, gateway: str, cut: Checkpoint) -> bool:
        start = self._starts.get(cut.signed_by)
        if start is None:
            return False
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(start.public_key))
            key.verify(bytes.fromhex(cut.signature), cut.signed_text(gateway))
        except (InvalidSignature, ValueError):
            return False
        return True

    def _take_entry(self, line: AuditEntry, progress: _Progress) -> None:
        self._entries += 1
        if line.number <= progress.number:
            return self._fault(f"{_place(line)} comes after entry {progress.number}: entries were swapped or repeated.")
        if line.number != progress.number + 1:
            self._jump(line, progress)
        if line.hash != hash_of(line, progress.hash):
            self._fault(f"{_place(line)} was changed, or entries before it: its hash does not fit.")
        progress.number, progress.hash = line.number, line.hash
        self._meet(line.gateway, progress)
        return None

    def _jump(self, line: AuditEntry, progress: _Progress) -> None:
        """Entries are missing; pruning accounts for those up to its checkpoint."""
        cut = None if progress.chain is None else progress.chain.checkpoint
        first, last = progress.number + 1, line.number - 1
        if not cut or progress.number == 0 or cut.number != last:  # pruning leaves the first entry
            gone = f"Entry {first} was" if first == last else f"Entries {first} to {last} were"
            self._fault(f"{gone} removed from the chain {line.gateway}.")
        if cut and cut.number == last:
            progress.number, progress.hash = cut.number, cut.hash
            self._meet(line.gateway, progress)

    def _meet(self, gateway: str, progress: _Progress) -> None:
        """At this entry: what others say of it, and the head that was noted."""
        self._wanted.discard(progress.hash)
        for said, by in self._links.pop((gateway, progress.number), {}).items():
            if said != progress.hash:
                self._fault(
                    f"Entry {progress.number} of the chain {gateway} has another hash than the chain {by} says: one of "
                    "them was written anew."
                )
        chain = progress.chain
        if chain is not None and chain.length == progress.number and chain.head != progress.hash:
            self._fault(f"The last entry of the chain {gateway} has another hash than its head: it was changed.")

    def _check_end(self, gateway: str, progress: _Progress) -> None:
        chain = progress.chain
        if chain is None:
            return
        cut = chain.checkpoint
        if cut and cut.number > progress.number:
            progress.number, progress.hash = cut.number, cut.hash
            self._meet(gateway, progress)
        if progress.number < chain.length:
            self._fault(
                f"The chain {gateway} ends at entry {progress.number} and had {chain.length}: its last entries were "
                "removed."
            )

    def _check_links(self) -> None:
        """What is left of them names entries that are not there."""
        for (gateway, number), said in self._links.items():
            by = next(iter(said.values()))
            progress = self._progress.get(gateway)
            if progress is None:
                self._fault(f"The chain {gateway}, of {number} entries when {by} started, was removed.")
            elif progress.number < number:
                self._fault(
                    f"The chain {gateway} ends at entry {progress.number} and had {number} when {by} started: its last "
                    "entries were removed."
                )

    def _fault(self, sentence: str) -> None:
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(sentence)


def _place(entry: AuditEntry) -> str:
    return f"Entry {entry.number} of the chain {entry.gateway} ({entry.id[:40]})"
