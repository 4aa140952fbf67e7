"""One message over the network. Touches no database: it runs in threads."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from portal.errors import Refused
from portal.webhooks.addresses import Network, Resolver, WebhookTarget, resolve_host, resolve_target
from portal.webhooks.secrets import signature

TIMEOUT_SECONDS = 5.0
MAX_RESPONSE_BYTES = 1_024


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    delivery: int
    event: int
    url: str
    secret: str
    body: bytes


@dataclass(frozen=True, slots=True)
class SendResult:
    """`status` is that of the answer, None where there was none. `problem` is empty if it is
    taken."""

    status: int | None
    problem: str


def post_message(
    message: WebhookMessage, allowed_networks: Iterable[Network], look_up: Resolver = resolve_host
) -> SendResult:
    """Post it to the address that was just checked, without following where it is sent on to."""
    try:
        target = resolve_target(message.url, allowed_networks, look_up)
        return _post(message, target)
    except Refused as refused:
        return SendResult(None, refused.sentence[:200])
    except httpx.TimeoutException:
        return SendResult(None, f"No answer within {TIMEOUT_SECONDS:.0f} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as wrong:
        return SendResult(None, f"{type(wrong).__name__}: {wrong}"[:200])


def _post(message: WebhookMessage, target: WebhookTarget) -> SendResult:
    """To the address itself, with the name in Host and in TLS: nothing is resolved again."""
    address = f"[{target.address}]" if ":" in target.address else target.address
    url = f"{target.scheme}://{address}:{target.port}{target.path}"
    end = time.monotonic() + TIMEOUT_SECONDS
    with (
        httpx.Client(trust_env=False, follow_redirects=False, timeout=TIMEOUT_SECONDS) as client,
        client.stream(
            "POST",
            url,
            content=message.body,
            headers=message_headers(message, target, int(time.time())),
            extensions={"sni_hostname": target.host},
        ) as answer,
    ):
        _read_some(answer, end)
        if answer.is_success:
            return SendResult(answer.status_code, "")
        return SendResult(answer.status_code, f"It answered {answer.status_code}")


def message_headers(
    message: WebhookMessage, target: WebhookTarget, timestamp: int
) -> dict[str, str]:
    """What goes with the body: who it is for, what it is, and the proof that it is ours."""
    is_usual = target.port == (443 if target.scheme == "https" else 80)
    host = f"[{target.host}]" if ":" in target.host else target.host
    return {
        "Host": host if is_usual else f"{host}:{target.port}",
        "Content-Type": "application/json",
        "User-Agent": "Tessera-Webhooks/1",
        "Tessera-Event-Id": str(message.event),
        "Tessera-Delivery-Id": str(message.delivery),
        "Tessera-Timestamp": str(timestamp),
        "Tessera-Signature": signature(message.secret, timestamp, message.body),
    }


def _read_some(answer: httpx.Response, end: float) -> None:
    """A little of the answer, so that a connection that pours or drips does not hold us."""
    seen = 0
    for chunk in answer.iter_raw():
        seen += len(chunk)
        if seen > MAX_RESPONSE_BYTES or time.monotonic() > end:
            return
