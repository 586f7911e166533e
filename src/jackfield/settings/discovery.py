"""The operator's words about services that are not named one by one: `[discovery]`.

Above: `settings.py`, which reads the file; `services.py`, which finds them. Below: the principal.
"""

import re
from collections.abc import Collection, Mapping

import msgspec
from msgspec import Struct

from jackfield.model.principal import Principal, Scope

SUFFIX = "_API_URL"
OURS = "JACKFIELD"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


class DiscoverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[discovery]`: where to look for services that publish a manifest, and who may read ours."""

    env: bool | tuple[str, ...] = False
    """Take the urls in `<NAME>_API_URL` variables: all of them, or those of these services."""
    folder: str | None = None
    """A folder in which services leave a small file each, with their `url`; relative to the config."""
    public: bool | tuple[str, ...] = False
    """Whether the manifest is read without a key: all of it, or the tools that fit these names and globs."""

    @property
    def reader(self) -> Principal | None:
        """Whoever asks without a key, where that is allowed: reads what a key without a limit of its own would."""
        if not self.public:
            return None
        reader = Principal(name="nobody", scopes=frozenset({Scope.READ.value}))
        return reader if self.public is True else msgspec.structs.replace(reader, tools=self.public)


def services_in(
    environment: Mapping[str, str], settings: DiscoverySettings, *, taken: Collection[str]
) -> dict[str, str]:
    """Services by name, with their urls, as the environment has them. `taken` names are the config's own."""
    if settings.env is True:
        names = [service_of(variable) for variable in environment if variable.endswith(SUFFIX)]
    else:
        names = list(settings.env or ())
    wanted = [name for name in sorted(names) if _NAME.fullmatch(name) and name not in taken]
    return {name: url for name in wanted if (url := environment.get(variable_of(name)))}


def variable_of(name: str) -> str:
    """`agent-manager` → `AGENT_MANAGER_API_URL`."""
    return f"{name.replace('-', '_').upper()}{SUFFIX}"


def service_of(variable: str) -> str:
    """`AGENT_MANAGER_API_URL` → `agent-manager`; empty where the variable is no service's."""
    name = variable.removesuffix(SUFFIX)
    return "" if name == OURS else name.replace("_", "-").lower()
