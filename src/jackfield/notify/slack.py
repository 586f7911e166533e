"""Slack's incoming webhooks. Foreign text goes into `plain_text` only, where nothing is a mention, a link or markup."""

import msgspec

from jackfield.notify.types import Message
from jackfield.notify.webhook import post
from jackfield.notify.wording import Wording, wording_of
from jackfield.outgoing import Outgoing

_encode = msgspec.json.Encoder().encode
_HEADERS = {"content-type": "application/json"}


async def send_slack(outgoing: Outgoing, message: Message, *, url: str) -> None:
    """Raises `Undelivered`."""
    await post(outgoing, url, slack_body(wording_of(message)), headers=_HEADERS)


def slack_body(wording: Wording) -> bytes:
    blocks: list[dict[str, object]] = [{"type": "header", "text": _plain(wording.title)}]
    if wording.lines:
        text = "\n".join(f"{label}: {value}" for label, value in wording.lines)
        blocks.append({"type": "section", "text": _plain(text[:3000])})
    if wording.link is not None:
        button = {"type": "button", "text": _plain(wording.link_text), "url": wording.link, "style": "primary"}
        blocks.append({"type": "actions", "elements": [button]})
    return _encode(
        {
            "text": escape_slack(wording.title),
            "blocks": blocks,
            "parse": "none",
            "link_names": False,
            "unfurl_links": False,
            "unfurl_media": False,
        }
    )


def escape_slack(text: str) -> str:
    """For text that Slack reads as markup: these three characters are all that begins a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> dict[str, object]:
    return {"type": "plain_text", "text": text, "emoji": False}
