"""The consent page: who asks, for what, as whom. The person allows all, some or nothing of it. No JavaScript.

Above: `authorize_api.py`. Below: `pages.py`, which escapes every text. A client's name is foreign text and is shown as
what the client calls itself, beside the address that gets the answer.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from jackfield.http.response import Response
from jackfield.identity.browser import FormToken
from jackfield.identity.oauth.addresses import group_of
from jackfield.identity.oauth.authorization import PARAMETERS, Asker, Wanted
from jackfield.identity.oauth.redirects import describe, form_targets
from jackfield.identity.oauth.types import SCOPES
from jackfield.identity.pages import Html, element, hidden_field, joined, named, page

MOST_GROUPS = 100


class GroupChoice(Struct, frozen=True, kw_only=True):
    """A group of tools that the person may limit the client to."""

    name: str
    description: str


class Consent(Struct, frozen=True, kw_only=True):
    """All that the page shows."""

    asker: Asker
    wanted: Wanted
    person: str
    title: str | None
    """The person's own name, where there is one."""
    held: tuple[str, ...]
    """Those of the scopes asked for that the person can give."""
    instead: tuple[str, ...]
    """Less than what was asked for, which the person may give instead."""
    groups: tuple[GroupChoice, ...]
    resource: str


def consent_page(
    consent: Consent, fields: Mapping[str, str], token: FormToken, *, switch_to: str, fault: str | None = None
) -> Response:
    """The page. `fields`: the request, sent again with the form. `switch_to`: where to sign in as somebody else."""
    client = consent.asker.client
    name = client.name or "A program without a name"
    kept = [hidden_field(key, fields[key]) for key in PARAMETERS if key in fields]
    form = element(
        "form",
        *kept,
        hidden_field("person", consent.person),
        token.field,
        _scopes(consent),
        *_groups(consent),
        element("button", "Allow", type="submit", name="decision", value="allow", class_="primary"),
        element("button", "Deny", type="submit", name="decision", value="deny"),
        method="post",
        action="/oauth/authorize",
    )
    warning = () if fault is None else (element("p", fault, class_="fault", role="alert"),)
    return page(
        "Allow access?",
        *warning,
        element("p", element("strong", name), " wants to use this gateway in your name."),
        _who(consent),
        form,
        element("p", element("a", "Sign in as somebody else", href=switch_to), class_="quiet"),
        form_targets=form_targets(consent.asker.redirect_uri),
        headers=token.headers,
    )


def _who(consent: Consent) -> Html:
    client, target = consent.asker.client, describe(consent.asker.redirect_uri)
    if client.is_verified:
        identity: tuple[str | Html, ...] = ("Published by ", element("strong", urlsplit(client.id).netloc), ".")
    else:
        identity = ("It registered itself. Its name is only what it claims; nobody has checked it.",)
    note_class = "fault" if target.is_suspicious else "quiet"
    return element(
        "dl",
        *_entry("Who asks", element("div", *identity)),
        *_entry(
            "Where the permission is sent",
            element("div", element("strong", target.where)),
            element("div", target.note, class_=note_class),
        ),
        *_entry("What for", element("div", _resource(consent))),
        *_entry("As", element("div", named(consent.person, consent.title))),
    )


def _resource(consent: Consent) -> Html:
    group = group_of(consent.wanted.resource)
    of = "Your tools" if group is None else f"The tools of the group '{group}'"
    return joined((f"{of} at ", element("code", consent.resource)))


def _entry(term: str, *said: Html) -> tuple[Html, Html]:
    return element("dt", term), element("dd", *said)


def _scopes(consent: Consent) -> Html:
    choices = [
        element(
            "label",
            element("input", type="checkbox", name="allowed_scope", value=scope, checked=scope in consent.held),
            element("span", f"{'Instead: ' if scope in consent.instead else ''}{SCOPES[scope]} ({scope})"),
            class_="choice",
        )
        for scope in (*consent.held, *consent.instead)
    ]
    missing = [scope for scope in consent.wanted.scopes if scope not in consent.held]
    note = (
        (element("p", f"It also asks for {', '.join(missing)}, which you do not have yourself.", class_="quiet"),)
        if missing
        else ()
    )
    return element("fieldset", element("legend", "It may"), *choices, *note)


def _groups(consent: Consent) -> tuple[Html, ...]:
    """Only where there is something to choose."""
    if group_of(consent.wanted.resource) is not None or not consent.groups:
        return ()
    choices = [
        element(
            "label",
            element("input", type="checkbox", name="allowed_group", value=group.name),
            element("span", element("strong", group.name), f" {group.description[:200]}"),
            class_="choice",
        )
        for group in consent.groups[:MOST_GROUPS]
    ]
    legend = element("legend", "Only these groups of tools")
    hint = element("p", "Choose none to allow all of your tools.", class_="quiet")
    return (element("fieldset", legend, hint, *choices),)
