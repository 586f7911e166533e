"""The plain page at `/` where the console was not built: three static files, nothing made from data.

Above: `routes.py`. Below: `static/`. The page's script asks the same doors as everybody else, and the policy here lets
it run nothing that did not come from this folder.
"""

from importlib.resources import files

from jackfield.web.answers import Answer, Reply
from jackfield.web.visit import Handler, Visit

_POLICY = (
    b"default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    b"object-src 'none'; require-trusted-types-for 'script'"
)
PAGE_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)


def static_file(name: str, media: str) -> Handler:
    """A door that gives one file of `static/`."""
    reply = static_reply(name, media)

    async def give(_visit: Visit) -> Answer:
        return reply

    return give


def static_reply(name: str, media: str) -> Reply:
    body = (files("jackfield.web") / "static" / name).read_bytes()
    return Reply(200, ((b"content-type", media.encode()), *PAGE_HEADERS), body)
