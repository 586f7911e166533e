"""Every principal by its name, whether a key's or a person's, as it is now.

Above: whoever acts for somebody who is not there, or has to know whether they still may. Below: the keyring, and the
people who signed in.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from jackfield.identity.keys import Keyring
from jackfield.identity.people import USER_PREFIX, People
from jackfield.model.principal import Principal

Ended = Callable[[AbstractSet[str]], None]


class Principals:
    """Keys and people."""

    def __init__(self, keyring: Keyring, people: People, *, on_ended: Ended) -> None:
        self._keyring = keyring
        self.people = people
        self._listeners = [on_ended]
        keyring.on_revoked = people.on_signed_out = self._tell

    def on_ended(self, listener: Ended) -> None:
        """From now on, `listener` is told who has ended: keys that are revoked, people who are signed out.

        At every gateway, whichever of them did it. What such a principal still has open is to be closed.
        """
        self._listeners.append(listener)

    def _tell(self, names: AbstractSet[str]) -> None:
        for listener in self._listeners:
            listener(names)

    def find(self, name: str) -> Principal | None:
        """The principal of that name; None: its key is gone or expired, or the person is signed out everywhere."""
        return self.people.find(name) if name.startswith(USER_PREFIX) else self._keyring.named(name)

    def holder(self, credential: str, *, name: str) -> Principal | None:
        """The same, as long as `credential` (see `Credential.key`) is good: what a login or a token is bound to.

        A key's ends with that key, a person's when they are signed out everywhere; a later sign-in does not revive it.
        """
        if name.startswith(USER_PREFIX):
            return self.people.holder(credential, name=name)
        return self._keyring.holder(credential, name=name)

    async def look_up(self, name: str) -> Principal | None:
        """The same with the newest that any gateway knows."""
        await self.read(name)
        return self.find(name)

    async def read(self, name: str) -> None:
        """Have the newest of a person who may have just signed in at another gateway."""
        if name.startswith(USER_PREFIX):
            await self.people.read((name,))
