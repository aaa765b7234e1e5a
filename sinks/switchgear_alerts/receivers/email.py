"""E-mail by SMTP. Messages of one incident are one conversation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Annotated, Final, Literal

import aiosmtplib
from pydantic import AfterValidator, Field, model_validator

from switchgear_alerts import texts
from switchgear_alerts.errors import DeliveryError
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.receivers.base import Context, Progress, ReceiverOptions
from switchgear_alerts.secret import Secret
from switchgear_schemas.visible import sentence

TIMEOUT_S: Final = 20.0
_PORTS: Final = {"tls": 465, "starttls": 587, "none": 25}
_PERMANENT: Final = 500
_MOST_SHOWN: Final = 3
"""Recipients that an error names."""
_ADDRESS: Final = re.compile(r"[^\s@<>,;?\x00-\x1f\x7f]+@[^\s@<>,;?\x00-\x1f\x7f]+")
"""A ``?`` could make an encoded word, which Python's e-mail library decodes."""


def _checked(address: str) -> str:
    if not _ADDRESS.fullmatch(address):
        raise ValueError("must be an address such as ops@example.com, alone and without a name")
    return address


Address = Annotated[str, AfterValidator(_checked)]


class EmailOptions(ReceiverOptions):
    """Options of an SMTP server and the addresses."""

    type: Literal["email"]
    host: str = Field(min_length=1)
    port: int | None = Field(default=None, ge=1, le=65_535)
    security: Literal["tls", "starttls", "none"] = "starttls"
    username: str | None = None
    password: Secret | None = None
    sender: Address = Field(alias="from")
    to: tuple[Address, ...] = Field(min_length=1, max_length=50)

    @model_validator(mode="after")
    def _login_is_encrypted(self) -> EmailOptions:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together")
        if self.username is not None and not self.username.isprintable():
            raise ValueError("username must have no control characters")
        if self.password is not None and self.security == "none" and self.host not in {"localhost", "127.0.0.1", "::1"}:
            raise ValueError('security = "none" would send the password in clear text')
        return self


class EmailReceiver:
    """Sends one e-mail a message, over one connection each."""

    renew_every_s: float | None = None

    def __init__(self, options: EmailOptions, context: Context) -> None:
        self._options = options
        self._password = None if options.password is None else options.password.reveal_line("password")
        self._console_url = context.console_url
        self._progress = Progress()

    async def send(self, message: Message) -> str:
        """Send a message to the recipients who don't have it yet."""
        done = self._progress
        done.begin(message.id)
        later: dict[str, str] = {}
        answer = ""
        if left := done.left(self._options.to):
            refused, answer = await self._send(message, left)
            for address, (code, said) in refused.items():
                (done.refused if code >= _PERMANENT else later)[address] = f"{code} {sentence(said)[:100]}"
            done.taken.update(each for each in left if each not in refused)
        if later or done.refused:
            shown = [f"{address}: {said}" for address, said in (later | done.refused).items()]
            more = f" and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
            raise DeliveryError(
                f"SMTP refused {len(shown)} of {len(self._options.to)} recipients: {'; '.join(shown[:_MOST_SHOWN])}{more}",
                permanent=not later,
            )
        return sentence(answer)[:200]

    async def _send(self, message: Message, recipients: Sequence[str]) -> tuple[dict[str, tuple[int, str]], str]:
        """Return the recipients whom the server refused, with its codes and texts, and what it answered."""
        options = self._options
        try:
            refused, answer = await aiosmtplib.send(
                email_of(message, options.sender, options.to, self._console_url),
                recipients=list(recipients),
                hostname=options.host,
                port=options.port or _PORTS[options.security],
                username=options.username,
                password=self._password,
                use_tls=options.security == "tls",
                start_tls=options.security == "starttls",
                timeout=TIMEOUT_S,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            return {each.recipient: (each.code, str(each.message)) for each in error.recipients}, ""
        except aiosmtplib.SMTPResponseException as error:
            raise DeliveryError(
                f"SMTP {error.code}: {sentence(str(error.message))[:200]}", permanent=error.code >= _PERMANENT
            ) from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise DeliveryError(f"{type(error).__name__}: {sentence(str(error))[:200]}") from None
        return {address: (code, str(said)) for address, (code, said) in refused.items()}, answer

    async def renew(self, firing: Sequence[Change]) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: no connection stays open."""


def email_of(message: Message, sender: str, to: Sequence[str], console_url: str | None) -> EmailMessage:
    """Return the e-mail of a message. A repeated one has the same ``Message-ID``."""
    found = EmailMessage()
    found["Subject"] = _plain(
        f"[{texts.worst(message.changes)}] {texts.title(message)}"[:250] if message.changes else texts.title(message)
    )
    found["From"], found["To"] = sender, ", ".join(to)
    found["Date"] = format_datetime(datetime.fromtimestamp(message.created_at, UTC))
    domain = sender.rpartition("@")[2]
    found["Message-ID"] = f"<{_hashed(message.id)}@{domain}>"
    threads = list(dict.fromkeys(change.thread for change in message.changes if change.thread))[:20]
    if message.kind in {"updated", "resolved"} and threads:
        openings = [
            f"<{_hashed(each if each.startswith('group-') else f'{each}:opened')}@{domain}>" for each in threads
        ]
        found["In-Reply-To"] = openings[0]
        found["References"] = " ".join(openings)
    found["Auto-Submitted"] = "auto-generated"
    found.set_content(f"{texts.plain_text(message, console_url)}\n")
    return found


def _plain(text: str) -> str:
    """Return a text for a header without encoded words: the library decodes them, also to line feeds, as if they were our own."""
    return text.replace("=?", "= ?")


def _hashed(identifier: str) -> str:
    return hashlib.sha256(identifier.encode()).hexdigest()[:40]
