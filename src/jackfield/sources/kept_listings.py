"""What sources with a login listed last, kept in the store: a list that is hidden before a login outlives a restart.

Above: sources, by `SourceContext.kept`. Below: `transactions.py`.
"""

import hashlib
import logging
from functools import partial

from jackfield.errors import JackfieldError
from jackfield.sources import transactions as tool_tx
from jackfield.store import Store

log = logging.getLogger("jackfield.sources")

LARGEST = 16 * 1024 * 1024
"""Bytes of a list that is kept."""


class KeptListings:
    """The last list of each source. All gateways of a database share them. Without a store nothing is kept."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._written: dict[str, bytes] = {}
        """By source: the digest of what this gateway has written last."""

    async def read(self, source: str) -> bytes | None:
        """The list as its source wrote it; None: none is kept."""
        if self._store is None:
            return None
        found = await self._store.read(partial(tool_tx.kept_listing, source))
        return None if found is None else found.encode()

    def forget(self, source: str) -> None:
        """The source of that name is, or will be, another one: whatever it lists is written."""
        self._written.pop(source, None)

    async def keep(self, source: str, listing: bytes) -> None:
        """Keep a list, which is JSON or other text. That it cannot be kept is logged, and no fault of the source."""
        digest = hashlib.sha256(listing).digest()
        if self._store is None or self._written.get(source) == digest or len(listing) > LARGEST or b"\0" in listing:
            return
        try:
            await self._store.write(partial(tool_tx.keep_listing, source, listing.decode()))
        except (JackfieldError, UnicodeDecodeError) as fault:
            log.warning("the list of source %s could not be kept: %s", source, fault)
            return
        self._written[source] = digest
