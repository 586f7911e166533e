"""E-mail, by the standard library, in a thread. Plain text, and the same as minimal HTML."""

import asyncio
import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from html import escape

from jackfield.notify.types import Message, Undelivered
from jackfield.notify.wording import Wording, wording_of
from jackfield.settings.notify import NotifySettings, SmtpServer, smtp_server

SECONDS = 30.0
_PERMANENT = 500


async def send_mail(message: Message, settings: NotifySettings, *, host: str) -> None:
    """Hand in one message. `host` names this gateway in its Message-ID. Raises `Undelivered`."""
    server = smtp_server(settings, where="notify")
    mail = mail_of(message, settings, host=host)
    try:
        await asyncio.to_thread(_hand_in, server, mail)
    except smtplib.SMTPRecipientsRefused as fault:
        codes = [code for code, _ in fault.recipients.values()]
        raise Undelivered(
            f"The mail server refused every recipient ({', '.join(map(str, codes))}).",
            is_refused=all(code >= _PERMANENT for code in codes),
        ) from None
    except smtplib.SMTPAuthenticationError as fault:
        raise Undelivered(f"The mail server did not take username and password ({fault.smtp_code}).") from None
    except (smtplib.SMTPDataError, smtplib.SMTPSenderRefused) as fault:
        raise Undelivered(
            f"The mail server refused the message ({fault.smtp_code}).", is_refused=fault.smtp_code >= _PERMANENT
        ) from None
    except (smtplib.SMTPException, OSError) as fault:
        raise Undelivered(f"The mail server could not be used: {type(fault).__name__}.") from None


def mail_of(message: Message, settings: NotifySettings, *, host: str) -> EmailMessage:
    """Every attempt has the same Message-ID, so that a repeat is known for one."""
    wording = wording_of(message)
    mail = EmailMessage()
    mail["Subject"] = wording.title
    mail["From"] = settings.from_
    mail["To"] = ", ".join(settings.recipients)
    mail["Date"] = datetime.fromtimestamp(message.at / 1000, UTC)
    mail["Message-ID"] = f"<{message.id}@{host}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(_text(wording))
    mail.add_alternative(_html(wording), subtype="html")
    return mail


def _text(wording: Wording) -> str:
    lines = [unlinked(wording.title), "", *(f"{label}: {unlinked(value)}" for label, value in wording.lines)]
    if wording.link is not None:
        lines += ["", f"{wording.link_text}: {wording.link}"]
    return "\n".join(lines) + "\n"


def _html(wording: Wording) -> str:
    rows = "".join(
        f"<tr><th align=left valign=top>{escape(label)}</th><td>{escape(unlinked(value))}</td></tr>"
        for label, value in wording.lines
    )
    link = "" if wording.link is None else f'<p><a href="{escape(wording.link)}">{escape(wording.link_text)}</a></p>'
    title = escape(unlinked(wording.title))
    return f"<!doctype html><html><body><p><b>{title}</b></p><table>{rows}</table>{link}</body></html>"


def unlinked(text: str) -> str:
    """Foreign text in which mail programs see no URL to make a link of."""
    return text.replace("://", ": //").replace("www.", "www .")


def _hand_in(server: SmtpServer, mail: EmailMessage) -> None:
    context = ssl.create_default_context()
    with (
        smtplib.SMTP_SSL(server.host, server.port, timeout=SECONDS, context=context)
        if server.is_tls
        else smtplib.SMTP(server.host, server.port, timeout=SECONDS)
    ) as smtp:
        smtp.ehlo()
        if not server.is_tls and (server.needs_starttls or smtp.has_extn("starttls")):
            smtp.starttls(context=context)
        if server.username is not None and server.password is not None:
            smtp.login(server.username, server.password)
        smtp.send_message(mail)
