"""What a server says when it refuses a request: the `WWW-Authenticate` header, and which scopes to ask for. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from jackfield.connections.oauth.errors import StepUpRefused
from jackfield.connections.oauth.types import Challenge, Target, Tokens

MAX_HEADER = 8_192
MAX_SCOPES = 100
MAX_STEP_UPS = 2
"""So often in a row a login is widened for one call; the server then gets no third chance."""
OFFLINE_ACCESS = "offline_access"
INSUFFICIENT_SCOPE = "insufficient_scope"

_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER = re.compile(rf'({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))(?=[,\s]|$)')
_SCHEME = re.compile(rf"({_WORD})(?:\s+(?=[^\s,=])|\s*(?=,|$))")
_TOKEN68 = re.compile(r"[A-Za-z0-9\-._~+/]+=*\s*(?=,|$)")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


class Refusal(Struct, frozen=True, kw_only=True):
    """What a refused request means for the login it was made with."""

    kind: Literal["other", "nonce", "token", "scopes"]
    """`other`: not about the login. `nonce`: send it again, with headers made anew. `token`: the token is not taken;
    refresh it or log in. `scopes`: log in for more scopes."""
    challenge: Challenge | None = None


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """The challenges of a `WWW-Authenticate` header, or of several joined by commas. The unreadable is left out."""
    header, position = header[:MAX_HEADER], 0
    found: list[tuple[str, dict[str, str]]] = []
    while position < len(header):
        if header[position] in ", \t":
            position += 1
        elif (match := _PARAMETER.match(header, position)) and found:
            quoted, plain = match[2], match[3]
            value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found[-1][1].setdefault(match[1].lower(), value)
            position = match.end()
        elif match := _SCHEME.match(header, position):
            found.append((match[1].lower(), {}))
            position = match.end()
            if not _PARAMETER.match(header, position) and (token68 := _TOKEN68.match(header, position)):
                position = token68.end()
        else:
            following = header.find(",", position)
            position = len(header) if following < 0 else following
    return tuple(_challenge(scheme, parameters) for scheme, parameters in found)


def _challenge(scheme: str, parameters: Mapping[str, str]) -> Challenge:
    return Challenge(
        scheme=scheme,
        resource_metadata=parameters.get("resource_metadata") or None,
        scopes=split_scopes(parameters.get("scope", "")),
        error=parameters.get("error") or None,
        algs=tuple(parameters.get("algs", "").split()),
    )


def challenge_of(headers: Mapping[str, str]) -> Challenge | None:
    """The challenge that a client of ours can meet: `Bearer`, else `DPoP`. Names of headers are in lower case."""
    challenges = {challenge.scheme: challenge for challenge in parse_challenges(headers.get("www-authenticate", ""))}
    return challenges.get("bearer") or challenges.get("dpop")


def refusal_of(status: int, headers: Mapping[str, str]) -> Refusal:
    """What a response with this status means for the login."""
    challenge = challenge_of(headers)
    said = {each.error for each in parse_challenges(headers.get("www-authenticate", ""))}
    if "use_dpop_nonce" in said and headers.get("dpop-nonce"):
        return Refusal(kind="nonce", challenge=challenge)
    if INSUFFICIENT_SCOPE in said and status in (401, 403):
        return Refusal(kind="scopes", challenge=challenge)
    if status == 401:  # noqa: PLR2004
        return Refusal(kind="token", challenge=challenge)
    return Refusal(kind="other", challenge=challenge)


def split_scopes(text: str) -> tuple[str, ...]:
    """The scopes in a space-separated list, each once; what is no scope is left out."""
    return valid_scopes(text.split(" "))


def valid_scopes(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if _SCOPE.fullmatch(name)))[:MAX_SCOPES]


def initial_scopes(
    target: Target, challenge: Challenge | None, *, configured: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """What a first login asks for: the config's scopes, else the challenge's, else those of the resource, else none."""
    if configured is not None:
        return configured
    if challenge is not None and challenge.scopes:
        return with_offline_access(target, challenge.scopes)
    return with_offline_access(target, valid_scopes(target.resource_scopes or ()))


def with_offline_access(target: Target, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """`scopes` and `offline_access`, where the authorization server offers it.

    Not where no scopes are asked for: the server then gives its default, which a single scope would replace.
    """
    if not scopes or OFFLINE_ACCESS in scopes or OFFLINE_ACCESS not in (target.server.scopes_supported or ()):
        return scopes
    return (*scopes, OFFLINE_ACCESS)


def stepped_up_scopes(
    tokens: Tokens, challenge: Challenge | None, *, attempts: int, where: str, asked: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """What a login asks for after `insufficient_scope`: all it had or asked for, also in `asked`, and what is missing.

    `attempts` is how often in a row it was widened already. Raises `StepUpRefused` where another login would not help.
    """
    wanted = challenge.scopes if challenge is not None else ()
    if wanted and set(wanted) <= set(tokens.scopes):
        raise StepUpRefused(
            f"{where} says that the login lacks the scopes {' '.join(wanted)}, but it has them. "
            f"Ask whoever runs {where} what this account may do."
        )
    if not wanted:
        raise StepUpRefused(
            f"{where} says that the login lacks scopes, but not which. List them as `scopes` in the source's `oauth`."
        )
    if attempts >= MAX_STEP_UPS:
        raise StepUpRefused(
            f"{where} asked for more scopes after {attempts} logins in a row, last for {' '.join(wanted)}. "
            f"This account may not have them."
        )
    return valid_scopes((*tokens.scopes, *tokens.asked, *asked, *wanted))
