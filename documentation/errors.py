"""`reference/errors.md`: refusals with their codes and statuses, and the codes of calls that failed."""

import importlib
import pkgutil
from contextlib import suppress
from functools import cache

import jackfield
from documentation.fields import summary_of
from documentation.markdown import page, table
from jackfield.errors import STATUS, JackfieldError, Refused
from jackfield.model.call import FAILURES
from jackfield.protocol.errors import MethodNotAllowed, TooSlow

OF_HTTP: dict[type[Refused], int] = {MethodNotAllowed: 405, TooSlow: 408}
"""What `http_status` adds to `STATUS`."""


def errors_page() -> str:
    """The whole page."""
    return page(
        "Error reference",
        "A request that is not carried out is a *refusal*: an HTTP error with a code that never changes and a message "
        "that says what happened, to what, and what to do. A tool that fails is not a refusal but the outcome of a "
        "call: HTTP 200 with `success: false` and an error with one of the codes [below](#calls-that-failed).",
        "## Refusals",
        "The Python SDK raises the class, the TypeScript client a `GatewayError` with the same `code`. A class in "
        "parentheses is the more general one that also catches it.",
        table(["code", "HTTP", "class", "when"], map(_row, refusals())),
        'The body is `{"error": {"code", "message", "param", …}}`. `param` names the parameter at fault; '
        "`invalid_arguments` has `details` with a path and a message for each invalid argument, `login_needed` has "
        "`login_url`, and 429 and 503 come with `Retry-After`. The Responses API has the same codes in the form of "
        "OpenAI's errors.",
        "## Calls that failed",
        "The `error.code` of a call with the status `failed`, `rejected`, `expired` or `cancelled`. A call may also "
        "fail with the code of a refusal, if the reason shows only after it was accepted, with one of the "
        "[faults](#faults), or with a code of the service's own.",
        table(["code", "when"], ((f"`{code}`", says) for code, says in sorted(FAILURES.items()))),
        "## Faults",
        "What goes wrong on the way to a tool, as the status of a source or the log names it; and what the command "
        "line and the SDK report by themselves.",
        table(["code", "class", "when"], ((f"`{one.code}`", f"`{one.__name__}`", summary_of(one)) for one in faults())),
    )


@cache
def every_error() -> tuple[type[JackfieldError], ...]:
    """All classes of the gateway, the SDK and the command line, in the order of the tree."""
    for module in pkgutil.walk_packages(jackfield.__path__, "jackfield."):
        if not module.name.endswith("__main__") and ".tool." not in f"{module.name}.":
            with suppress(ModuleNotFoundError):  # of an extra that is not installed
                importlib.import_module(module.name)
    return tuple(_tree(JackfieldError))


def refusals() -> list[type[Refused]]:
    """By status, then as the tree has them."""
    found = [one for one in every_error() if issubclass(one, Refused) and one is not Refused]
    return sorted((one for one in found if "code" in vars(one)), key=status_of)


def faults() -> list[type[JackfieldError]]:
    """By code; of those with a code of their own, and of the SDK's."""
    found = [one for one in every_error() if not issubclass(one, Refused) and "code" in vars(one)]
    return sorted((one for one in found if one is not JackfieldError), key=lambda one: one.code)


def status_of(error: type[Refused]) -> int:
    """As for one that was raised."""
    known = STATUS | OF_HTTP
    return next(known[cls] for cls in error.__mro__ if cls in known)


def _tree(root: type[JackfieldError]) -> list[type[JackfieldError]]:
    return [root, *(inner for child in root.__subclasses__() for inner in _tree(child))]


def _row(error: type[Refused]) -> tuple[str, str, str, str]:
    parent = error.__mro__[1]
    of = "" if parent is Refused else f" ({parent.__name__})"
    return f"`{error.code}`", str(status_of(error)), f"`{error.__name__}`{of}", summary_of(error)
