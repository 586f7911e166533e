"""The tree of all errors.

    JackfieldError                      a message for people, a stable code for programs
    ├── ConfigError                     the config cannot be used; stops the start
    ├── Refused                         a request was not carried out; nothing happened
    │   ├── BadRequest          400     the body or a parameter is invalid
    │   │   ├── InvalidArguments        the tool's schema does not allow these arguments
    │   │   └── PreviousResponseNotFound  the response to continue does not exist
    │   ├── Unauthenticated     401     no key, or a wrong one
    │   ├── Forbidden           403     the key may not do this
    │   │   ├── ToolDisabled            the tool is disabled
    │   │   ├── KeyDisabled             the key is switched off
    │   │   ├── DefinitionChanged       quarantined until a person accepts its new definition
    │   │   └── DeniedByHook            a hook denied the call, or failed
    │   ├── NotFound            404
    │   │   ├── ToolNotFound
    │   │   ├── ResourceNotFound
    │   │   ├── PromptNotFound
    │   │   ├── CallNotFound
    │   │   ├── RunNotFound
    │   │   ├── ResponseNotFound
    │   │   ├── SessionNotFound
    │   │   ├── AgentNotFound
    │   │   └── SpaceNotFound
    │   ├── Conflict            409     the thing is not in a state that allows this
    │   │   ├── AlreadyResolved
    │   │   ├── ConfigInvalid               the config file cannot be used, so the one in force stays
    │   │   ├── LoginNeeded                 a source wants a login that there is not yet, or not for this
    │   │   └── CallLoop                    the call came back to a gateway, or has passed too many
    │   ├── Expired             410
    │   │   └── EventsPurged            the events are no longer in the buffer
    │   ├── TooLarge            413
    │   ├── WrongMediaType      415
    │   ├── Misdirected         421     Host or Origin is not one of ours
    │   ├── RateLimited         429     too many calls of this tool
    │   ├── UpstreamFailed      502     a server could not give a resource or a prompt
    │   └── Unavailable         503
    │       ├── SourceUnavailable       the tool's source is down
    │       ├── StoreBusy               the store's queue is full
    │       └── NotReady                the gateway is still starting, or stopping
    ├── CouldNotStart                   a program did not start
    └── NameTaken                       two owners claim one name

A failing tool is not an error but an outcome (`model/call.py`). Class = situation, message = what happened, to what,
and what to do. The code is part of the contract and never changes.
"""

from typing import Any


class JackfieldError(Exception):
    """The root. `str(error)` is a sentence that can be shown."""

    code: str = "error"

    @property
    def message(self) -> str:
        return str(self)


class ConfigError(JackfieldError):
    """The configuration cannot be used as it is."""

    code = "config_error"


class NameTaken(JackfieldError):
    """Two owners claim one name."""

    code = "name_taken"


class CouldNotStart(JackfieldError):
    """A program that was to run as a process of its own did not start."""

    code = "could_not_start"


class Refused(JackfieldError):
    """A request that was not carried out. Carries the parameter at fault, if one is."""

    code = "refused"
    challenge: str | None = None
    """How to authenticate, as `WWW-Authenticate` says it, where that is more than `Bearer`."""
    on_record = False
    """Whether the call that was refused, or failed by this, is on record."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class BadRequest(Refused):
    """The body or a parameter is invalid."""

    code = "invalid_request"


class InvalidArguments(BadRequest):
    """Arguments that break the tool's schema; `details` has one path and message per fault."""

    code = "invalid_arguments"

    def __init__(self, message: str, *, details: list[dict[str, Any]]) -> None:
        super().__init__(message, param="arguments")
        self.details = details


class PreviousResponseNotFound(BadRequest):
    """The response to continue does not exist, or was not stored."""

    code = "previous_response_not_found"


class Unauthenticated(Refused):
    """No key, or a wrong one."""

    code = "unauthenticated"


class Forbidden(Refused):
    """The key may not do this."""

    code = "forbidden"


class ToolDisabled(Forbidden):
    """The tool is switched off, by its metadata, a preference or an administrator."""

    code = "disabled"


class KeyDisabled(Forbidden):
    """An administrator has switched the key off."""

    code = "key_disabled"


class DefinitionChanged(Forbidden):
    """A foreign tool changed its definition and is quarantined until a person accepts it."""

    code = "definition_changed"


class DeniedByHook(Forbidden):
    """A hook denied the call, or failed."""

    code = "denied_by_hook"

    def __init__(
        self, message: str, *, param: str | None = None, call_id: str | None = None, notes: tuple[Any, ...] = ()
    ) -> None:
        """`call_id`: what the hooks knew the call by; `notes`: what each of them did, as the call's record has it."""
        super().__init__(message, param=param)
        self.call_id = call_id
        self.notes = notes


class NotFound(Refused):
    """There is no such thing, or not for this key."""

    code = "not_found"


class ToolNotFound(NotFound):
    """No tool of this name that the key can see."""

    code = "tool_not_found"


class ResourceNotFound(NotFound):
    """No resource of this URI that the key can see."""

    code = "resource_not_found"


class PromptNotFound(NotFound):
    """No prompt of this name that the key can see."""

    code = "prompt_not_found"


class CallNotFound(NotFound):
    """No call of this id that the key can see."""

    code = "call_not_found"


class RunNotFound(NotFound):
    """No run of this id that the key can see."""

    code = "run_not_found"


class ResponseNotFound(NotFound):
    """No stored response of this id that the key can see."""

    code = "response_not_found"


class SessionNotFound(NotFound):
    """No session of this id; one that was lost with its gateway can be reopened."""

    code = "session_not_found"


class AgentNotFound(NotFound):
    """No agent of this name that the key can see."""

    code = "agent_not_found"


class SpaceNotFound(NotFound):
    """No space of this id that the key can see."""

    code = "space_not_found"


class Conflict(Refused):
    """The thing is not in a state that allows this."""

    code = "conflict"


class AlreadyResolved(Conflict):
    """The call has been answered already; the first answer counts."""

    code = "already_resolved"


class ConfigInvalid(Conflict):
    """The config that was read anew cannot be used; the one in force stays."""

    code = "config_error"


class LoginNeeded(Conflict):
    """A source refused before it acted: somebody has to log in there, perhaps for more `scopes`.

    `principal` is who, by the name on record; None: an administrator, because there is one login for all.
    """

    code = "login_needed"

    def __init__(
        self,
        message: str,
        *,
        source: str,
        principal: str | None,
        scopes: tuple[str, ...] = (),
        login_url: str | None = None,
    ) -> None:
        super().__init__(message)
        self.source = source
        self.principal = principal
        self.scopes = scopes
        self.login_url = login_url


class CallLoop(Conflict):
    """A call that gateways pass on to each other in a circle, or too far."""

    code = "loop"


class Expired(Refused):
    """It has expired, such as a call that nobody answered in time."""

    code = "expired"


class EventsPurged(Expired):
    """The events are no longer in the buffer."""

    code = "events_purged"


class TooLarge(Refused):
    """The body, or what was sent in it, is too large."""

    code = "too_large"


class WrongMediaType(Refused):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"


class Misdirected(Refused):
    """The Host or Origin header names another server."""

    code = "misdirected"


class RateLimited(Refused):
    """Past the tool's limit per minute; `retry_after` is in seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UpstreamFailed(Refused):
    """A server could not give what was asked for; the code says how it failed."""

    code = "upstream_failed"

    def __init__(self, message: str, *, param: str | None = None, upstream_code: str | None = None) -> None:
        super().__init__(message, param=param)
        if upstream_code is not None:
            vars(self)["code"] = upstream_code


class Unavailable(Refused):
    """The gateway cannot do this now."""

    code = "unavailable"


class SourceUnavailable(Unavailable):
    """The tool's source is down."""

    code = "source_unavailable"


class StoreBusy(Unavailable):
    """The database's queue is full."""

    code = "store_busy"


class NotReady(Unavailable):
    """The gateway is starting or stopping."""

    code = "not_ready"


STATUS: dict[type[Refused], int] = {
    BadRequest: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    Expired: 410,
    TooLarge: 413,
    WrongMediaType: 415,
    Misdirected: 421,
    RateLimited: 429,
    UpstreamFailed: 502,
    Unavailable: 503,
}
"""Situation to HTTP status, once. A subclass has its parent's status."""


def status_of(error: Refused) -> int:
    """The HTTP status for a refusal, by the nearest class in `STATUS`."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)
