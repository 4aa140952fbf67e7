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

# The shortest limit of the systems is Discord's 2,000 characters.
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


def chat_body(chat: ChatFormat, lines: Sequence[ChatLine]) -> str:
    """The JSON body of one message. Lines that do not fit are left out."""
    text = ""
    for line in lines:
        written = _line(chat, line)
        if len(text) + len(written) + 1 > MAX_TEXT:
            break
        text = f"{text}\n{written}" if text else written
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
    text = " ".join(line.text.split())
    if chat is ChatFormat.SLACK:
        # Slack's own three, which are also those of its mentions: <!channel>, <@U1>.
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<{line.href}|{text.replace('|', '/')}>" if line.href else text
    text = MARKDOWN.sub(r"\\\1", text).replace("@", f"@{ZERO_WIDTH_SPACE}")
    return f"[{text}]({line.href})" if line.href else text
