"""What people may do: `[auth.roles]`, by their groups and their verified email.

Above: `people.py`, and whoever takes tokens of an issuer. Below: the settings. Pure.
"""

import string
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from jackfield.model.principal import GroupBook, GroupLimit, Principal
from jackfield.settings.identity import RoleSettings

EVERYBODY = "*"
_LOWER = {ord(letter): letter.lower() for letter in string.ascii_uppercase}


def roles_for(roles: Mapping[str, RoleSettings], *, groups: Iterable[str], email: str | None) -> list[str]:
    """The names of the roles that somebody has. `email`: verified, or None."""
    held = frozenset(groups)
    return [name for name, role in roles.items() if _is_for(role, held, email)]


def _is_for(role: RoleSettings, groups: frozenset[str], email: str | None) -> bool:
    if EVERYBODY in role.groups or not groups.isdisjoint(role.groups):
        return True
    return email is not None and any(fnmatchcase(_folded(email), _folded(glob)) for glob in role.emails)


def _folded(email: str) -> str:
    """ASCII letters count in either case. Others do not: some of them have an ASCII letter as their lower case."""
    return email.translate(_LOWER)


def role_principal(
    name: str, held: Iterable[str], roles: Mapping[str, RoleSettings], *, groups: GroupBook, title: str | None = None
) -> Principal | None:
    """The principal with these roles: of each limit the widest counts. None: none of the roles exists.

    `title`: how others are shown it.
    """
    found = [roles[role] for role in held if role in roles]
    if not found:
        return None
    group_names = _widest(role.groups_of_tools for role in found)
    return Principal(
        name=name,
        title=title,
        scopes=frozenset(scope for role in found for scope in role.scopes),
        tools=_widest(role.tools for role in found),
        groups=None if group_names is None else GroupLimit(group_names, groups),
        agents=_widest(role.agents for role in found),
        spaces=_widest(role.spaces for role in found),
    )


def _widest(limits: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """All that any of them allows; None, no limit, is the widest."""
    together: dict[str, None] = {}
    for limit in limits:
        if limit is None:
            return None
        together |= dict.fromkeys(limit)
    return tuple(together)
