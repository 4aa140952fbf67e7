"""Send one message over the network. Runs in threads and does not use the database."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from portal.errors import Refused
from portal.webhooks.addresses import Network, Resolver, WebhookTarget, resolve_host, resolve_target
from portal.webhooks.secrets import signature

# For connecting, and for the answer to begin or go on.
TIMEOUT_SECONDS = 5.0
# For all of it: an answer that comes byte by byte would never be late otherwise, and the task that
# sends would be ended before it has recorded what the others answered.
ATTEMPT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 1_024


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    delivery: int
    event: int
    url: str
    # Empty: the message is not signed, as for a chat.
    secret: str
    body: bytes


@dataclass(frozen=True, slots=True)
class SendResult:
    """The outcome of one attempt."""

    # HTTP status of the response; None without one.
    status: int | None
    # Empty if the message was accepted.
    problem: str


def post_message(
    message: WebhookMessage, allowed_networks: Iterable[Network], look_up: Resolver = resolve_host
) -> SendResult:
    """Post the message to the address that was just checked. Redirects are not followed."""
    try:
        target = resolve_target(message.url, allowed_networks, look_up)
        return asyncio.run(_post(message, target))
    except Refused as refused:
        return SendResult(None, refused.sentence[:200])
    except httpx.TimeoutException:
        return SendResult(None, f"No answer within {TIMEOUT_SECONDS:g} s")
    except TimeoutError:
        return SendResult(None, f"No whole answer within {ATTEMPT_SECONDS:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as wrong:
        return SendResult(None, f"{type(wrong).__name__}: {wrong}"[:200])


async def _post(message: WebhookMessage, target: WebhookTarget) -> SendResult:
    """Connect to the address, with the name in Host and SNI: it is not resolved again."""
    address = f"[{target.address}]" if ":" in target.address else target.address
    url = f"{target.scheme}://{address}:{target.port}{target.path}"
    async with (
        asyncio.timeout(ATTEMPT_SECONDS),
        httpx.AsyncClient(
            trust_env=False, follow_redirects=False, timeout=TIMEOUT_SECONDS
        ) as client,
        client.stream(
            "POST",
            url,
            content=message.body,
            headers=message_headers(message, target, int(time.time())),
            extensions={"sni_hostname": target.host},
        ) as answer,
    ):
        await _read_some(answer)
        if answer.is_success:
            return SendResult(answer.status_code, "")
        return SendResult(answer.status_code, f"It answered {answer.status_code}")


def message_headers(
    message: WebhookMessage, target: WebhookTarget, timestamp: int
) -> dict[str, str]:
    """Headers with the host, the ids of event and delivery, and the signature."""
    is_default_port = target.port == (443 if target.scheme == "https" else 80)
    host = f"[{target.host}]" if ":" in target.host else target.host
    plain = {
        "Host": host if is_default_port else f"{host}:{target.port}",
        "Content-Type": "application/json",
        "User-Agent": "Tessera-Webhooks/1",
    }
    if not message.secret:
        return plain
    return plain | {
        "Tessera-Event-Id": str(message.event),
        "Tessera-Delivery-Id": str(message.delivery),
        "Tessera-Timestamp": str(timestamp),
        "Tessera-Signature": signature(message.secret, timestamp, message.body),
    }


async def _read_some(answer: httpx.Response) -> None:
    """Read a little of the response, so that a server may end it; never a flood."""
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > MAX_RESPONSE_BYTES:
            return
