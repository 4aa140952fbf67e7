"""Messages as chat systems take them: JSON with one text, in which nothing of a user is markup.

Slack's incoming webhooks (Mattermost, Rocket.Chat and others take the same), Discord's, and
Microsoft Teams' workflows with an adaptive card.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

# The shortest limit of the systems is Discord's 2,000 characters; the count of the rest follows.
MAX_TEXT = 1_900
ZERO_WIDTH_SPACE = "\u200b"
MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~])")


class ChatFormat(StrEnum):
    """What an endpoint is sent. `signed`: every event as signed JSON, for programs."""

    SIGNED = "signed"
    SLACK = "slack"
    MATTERMOST = "mattermost"
    DISCORD = "discord"
    TEAMS = "teams"


@dataclass(frozen=True, slots=True)
class ChatLine:
    """One sentence, and the page that it is about."""

    text: str
    href: str = ""


def chat_body(chat: ChatFormat, lines: Sequence[ChatLine], hidden: int = 0) -> str:
    """The JSON body of one message. Lines that do not fit are counted with the hidden ones."""
    text = ""
    for number, line in enumerate(lines):
        written = f"\n{_line(chat, line)}" if text else _line(chat, line)
        if len(text) + len(written) > MAX_TEXT:
            hidden += len(lines) - number
            break
        text += written
    if hidden:
        text += "\n" + _("and %(n)s more") % {"n": hidden}
    return json.dumps(_envelope(chat, text), ensure_ascii=False)


def address_shown(url: str) -> str:
    """A chat's address without its path: who knows the path can write into the chat."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…"


def _envelope(chat: ChatFormat, text: str) -> dict[str, object]:
    match chat:
        case ChatFormat.DISCORD:
            return {"content": text, "allowed_mentions": {"parse": []}}
        case ChatFormat.TEAMS:
            block = {"type": "TextBlock", "text": text.replace("\n", "\n\n"), "wrap": True}
            card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
            card["$schema"] = "http://adaptivecards.io/schemas/adaptive-card.json"
            kind = "application/vnd.microsoft.card.adaptive"
            return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}
        case _:
            return {"text": text}


def _line(chat: ChatFormat, line: ChatLine) -> str:
    # What takes Slack's form may know mentions that Slack does not: @all.
    text = " ".join(line.text.split()).replace("@", f"@{ZERO_WIDTH_SPACE}")
    if chat is ChatFormat.SLACK:
        # Slack's own three, which are also those of its mentions: <!channel>, <@U1>.
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<{line.href}|{text.replace('|', '/')}>" if line.href else text
    text = MARKDOWN.sub(r"\\\1", text)
    return f"[{text}]({line.href})" if line.href else text
