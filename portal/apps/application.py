"""The ASGI application of the apps' hosts. It stands beside Django: no middleware, no page and no
cookie of the portal is here."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import parse_qs

import h11
from django.conf import settings
from django.db import InterfaceError, OperationalError

from portal.apps import answers
from portal.apps.access import AppAccess, live_access
from portal.apps.answers import Answer, CallRefused, refuse_websocket, send_answer, send_plain
from portal.apps.caller_header import NAME as CALLER_HEADER
from portal.apps.caller_header import caller_header, public_keys
from portal.apps.headers import (
    REST_TOKEN_PREFIX,
    Header,
    bearer_token,
    cookie_value,
    has_two_framings,
    request_headers,
)
from portal.apps.hosts import AppName, called_hosts, named_app
from portal.apps.http_exchange import (
    FIRST_BYTE_SECONDS,
    CallEnd,
    CallEnded,
    ConnectionCut,
    HttpExchange,
    NoAnswer,
)
from portal.apps.open_calls import LOOK_SECONDS, OpenCalls, TooManyCalls
from portal.apps.service_calls import ServiceCall, ServiceCalls
from portal.apps.service_pools import WAIT_SECONDS
from portal.apps.threads import run_in_thread
from portal.apps.token_usage import TokenUsage
from portal.apps.tokens import token_access, wrong_token_rate
from portal.apps.visits import digest, visit_enter, visitor_access
from portal.apps.websocket_exchange import WebSocketExchange
from portal.asgi_scope import Receive, Scope, Send, header, is_over_tls
from portal.client_address import (
    address_network,
    client_address,
    scope_address,
    set_client_address,
)
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.request_id import HEADER, set_request_id
from portal.token_buckets import TokenBuckets
from portal.tunnel.streams import PortStream, StreamRefused, Target

# Paths of the portal's own on the host of an app; an app never sees them.
OWN = "/_tessera/"
ENTER, KEYS = OWN + "enter", OWN + "keys"
MAX_FORM_BYTES = 1_024
# Of a process that ends, for the requests that are open. Others may wait as long for a tunnel that
# is held here: with what its node then needs to open another one, less than OPEN_SECONDS of
# portal/tunnel/streams.py. Together with the server's own 20 s less than what stops it.
LAST_CALLS_SECONDS = 6.0
CONNECT_SECONDS = 10.0
# Browsers send the first one back over TLS alone, and no other host can set it.
COOKIES = {True: "__Host-tessera-app", False: "tessera-app"}
REFUSED_METHODS = ("CONNECT", "TRACE")
# What a page asks for to show it inside itself (Fetch Metadata, Sec-Fetch-Dest).
FRAMES = ("embed", "fencedframe", "frame", "iframe", "object")


OpenStream = Callable[[Target], Awaitable[PortStream]]


class AppsApplication:
    """`open_stream`: the way to the ports of jobs."""

    def __init__(
        self,
        open_stream: OpenStream,
        *,
        look_seconds: float = LOOK_SECONDS,
        first_byte_seconds: float = FIRST_BYTE_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._open_stream = open_stream
        self._first_byte_seconds = first_byte_seconds
        open_access = partial(live_access, are_open=True)
        self._calls = OpenCalls(lambda callers: run_in_thread(open_access, callers), look_seconds)
        self._usage = TokenUsage()
        self._wrong_tokens = TokenBuckets(wrong_token_rate())
        self._services = ServiceCalls(self._opened, self._exchange, wait_seconds=wait_seconds)

    async def finish_calls(self) -> None:
        """Before the process ends: requests that are open may end, and nothing new begins."""
        await self._calls.finish(LAST_CALLS_SECONDS)

    async def close(self) -> None:
        """At the end of the process, once no call is open."""
        await self._usage.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        set_client_address(scope_address(scope))
        set_request_id(header(scope, HEADER))
        if scope["type"] == "websocket":
            await receive()  # websocket.connect
        try:
            await self._call(scope, receive, send)
        except CallRefused as refusal:
            await _refuse(scope, send, refusal.answer, closes=refusal.closes)
        except (OperationalError, InterfaceError):
            # It is asked before the app is, so nothing of an answer has been sent.
            await _refuse(scope, send, answers.DATABASE_AWAY, closes=True)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises CallRefused."""
        hosts = called_hosts(scope["headers"])
        name = named_app(hosts[0], settings.PLATFORM.apps_domain) if len(hosts) == 1 else None
        if name is None:
            raise CallRefused(answers.NO_APP, closes=True)
        if has_two_framings(scope["headers"]):
            raise CallRefused(answers.TWO_FRAMINGS, closes=True)
        is_secure = is_over_tls(scope)
        if settings.SECURE_SSL_REDIRECT and not is_secure:
            if scope["type"] == "websocket":
                raise CallRefused(answers.not_entered(name.place))
            await _redirect(send, 308, f"https://{hosts[0]}{_target(scope).decode('latin-1')}")
            return
        if scope["path"].startswith(OWN):
            await self._own(scope, receive, send, name, is_secure=is_secure)
            return
        if scope["type"] == "http" and scope["method"] in REFUSED_METHODS:
            raise CallRefused(answers.NO_METHOD, closes=True)
        if self._calls.is_closing:
            raise CallRefused(answers.restarting(name.place), closes=True)
        access = await self._access(scope, name, is_secure=is_secure)
        try:
            is_socket = scope["type"] == "websocket"
            with self._calls.opened(access.caller, is_socket=is_socket) as end:
                await self._pass_on(scope, receive, send, access, end)
        except TooManyCalls:
            raise CallRefused(answers.CALL_LIMIT, closes=True) from None

    async def _own(
        self, scope: Scope, receive: Receive, send: Send, name: AppName, *, is_secure: bool
    ) -> None:
        method = scope.get("method", "")
        if scope["path"] == KEYS and method == "GET":
            body = public_keys([settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS])
            await send_plain(send, 200, [(b"content-type", b"application/json")], body)
            return
        if scope["path"] not in (KEYS, ENTER):
            raise CallRefused(answers.NO_APP)
        if scope["path"] == KEYS or method != "POST":
            raise CallRefused(answers.NO_METHOD, closes=True)
        ticket = parse_qs(await _small_body(receive)).get("ticket", [""])[0]
        origin = header(scope, "origin")
        cookie = await run_in_thread(visit_enter, ticket, name, origin) if ticket else ""
        if not cookie:
            raise CallRefused(answers.ticket_gone(name.place))
        secure = "; Secure" if is_secure else ""
        text = f"{COOKIES[is_secure]}={cookie}; Path=/; HttpOnly; SameSite=Lax{secure}"
        await _redirect(send, 303, "/", (b"set-cookie", text.encode()))

    async def _access(self, scope: Scope, name: AppName, *, is_secure: bool) -> AppAccess:
        """By the token of a program, or by the cookie of a browser. Raises CallRefused."""
        headers = scope["headers"]
        if token := bearer_token(headers):
            if token.startswith(REST_TOKEN_PREFIX.decode()):
                # Not looked up: it opens no app, whose-ever it is.
                raise CallRefused(answers.REST_TOKEN, closes=True)
            found = await self._token_access(token, name)
        else:
            cookie = cookie_value(headers, COOKIES[is_secure])
            if not cookie:
                raise CallRefused(answers.not_entered(name.place), closes=True)
            if _is_of_other_page(scope, is_secure=is_secure):
                raise CallRefused(answers.OTHER_PAGE, closes=True)
            found = await self._calls.access_of(
                digest(f"{cookie}\n{name.label}"),
                lambda: run_in_thread(visitor_access, cookie, name),
            )
        if found is None:
            raise CallRefused(answers.not_entered(name.place), closes=True)
        return found

    async def _token_access(self, token: str, name: AppName) -> AppAccess | None:
        """Wrong tokens count against the address that they come from, which has to wait after many;
        a token that was right before is not held up by others of its address. Raises CallRefused.
        """
        key, address = digest(f"{token}\n{name.label}"), address_network(client_address())
        wait = 0 if self._calls.has_opened(key) else self._wrong_tokens.wait_seconds(address)
        if wait:
            raise CallRefused(answers.wrong_tokens(wait), closes=True)
        try:
            return await self._calls.access_of(
                key, lambda: run_in_thread(token_access, token, name)
            )
        except Refused as refused:
            if refused.code == ErrorCode.AUTHENTICATION_FAILED:
                # Those that were looked up meanwhile are owed, and waited for later.
                self._wrong_tokens.owe(address)
            raise CallRefused(_refusal(refused)) from None

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, access: AppAccess, end: CallEnd
    ) -> None:
        place = access.caller.name.place
        hidden = (*COOKIES.values(), settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)

        def headers() -> list[Header]:
            added = _added_headers(scope, access)
            return request_headers(scope["headers"], added=added, hidden_cookies=hidden)

        try:
            if access.target is None:
                receive, send = self._counted(access, receive, send)
                call = ServiceCall(scope, receive, send, headers, end)
                await self._services.pass_on(call, access.caller.name)
            else:
                stream = await self._opened(access.target, place)
                receive, send = self._counted(access, receive, send)
                await self._exchange(scope, receive, send, stream, headers(), end)
        except NoAnswer as no_answer:
            said = answers.not_answering if no_answer.is_late else answers.no_http
            raise CallRefused(said(place), closes=True) from None
        except ConnectionCut:
            raise CallRefused(answers.cut_off(place), closes=True) from None
        except CallEnded:
            said = answers.restarting if self._calls.is_closing else answers.not_entered
            raise CallRefused(said(place), closes=True) from None

    def _counted(self, access: AppAccess, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """For a program, so that its token tells what was called with it."""
        token_pk = access.caller.token_pk
        return self._usage.count_call(token_pk, receive, send) if token_pk else (receive, send)

    async def _exchange(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        stream: PortStream,
        headers: list[Header],
        end: CallEnd,
    ) -> None:
        """Raises NoAnswer, ConnectionCut, CallEnded and CallRefused."""
        if scope["type"] == "websocket":
            websocket = WebSocketExchange(
                stream,
                receive=receive,
                send=send,
                hidden_cookies=COOKIES.values(),
                subprotocols=scope.get("subprotocols", ()),
            )
            await websocket.run(_target(scope).decode("latin-1"), headers, end)
            return
        exchange = HttpExchange(
            stream,
            receive=receive,
            send=send,
            hidden_cookies=COOKIES.values(),
            first_byte_seconds=self._first_byte_seconds,
        )
        try:
            await exchange.run(_http_head(scope, headers), end)
        except h11.LocalProtocolError:
            stream.abort()
            raise CallRefused(answers.TWO_FRAMINGS, closes=True) from None

    async def _opened(self, target: Target, place: str) -> PortStream:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._open_stream(target)
        except StreamRefused as refused:
            raise CallRefused(answers.no_way(place, refused.sentence), closes=True) from None
        except (TimeoutError, OSError):
            raise CallRefused(answers.not_answering(place), closes=True) from None


async def _refuse(scope: Scope, send: Send, answer: Answer, *, closes: bool) -> None:
    if scope["type"] == "websocket":
        await refuse_websocket(scope, send, answer)
    else:
        await send_answer(scope, send, answer, closes=closes)


async def _small_body(receive: Receive) -> str:
    """Of a form of the portal. Raises CallRefused for a longer one."""
    body, has_more = b"", True
    while has_more:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or len(body) > MAX_FORM_BYTES:
            raise CallRefused(answers.NO_APP, closes=True)
        has_more = message.get("more_body", False)
    return body.decode("latin-1")


def _http_head(scope: Scope, headers: list[Header]) -> h11.Request:
    """Raises h11.LocalProtocolError for what cannot be written as one request."""
    framing: list[Header] = [(b"connection", b"close")]
    if length := header(scope, "content-length"):
        framing.append((b"content-length", length.encode("latin-1")))
    elif header(scope, "transfer-encoding"):
        framing.append((b"transfer-encoding", b"chunked"))
    return h11.Request(method=scope["method"], target=_target(scope), headers=headers + framing)


def _added_headers(scope: Scope, access: AppAccess) -> list[Header]:
    """What the portal says of the call."""
    name = access.caller.name
    host = called_hosts(scope["headers"])[0]
    signed = caller_header(
        secret_key=settings.SECRET_KEY,
        host=host,
        username=access.username,
        app=name.app,
        place=name.place,
        token=access.token_key,
        now=int(time.time()),
    )
    return [
        (b"host", host.encode("latin-1")),
        (b"x-forwarded-for", scope_address(scope).encode()),
        (b"x-forwarded-host", host.encode("latin-1")),
        (b"x-forwarded-proto", b"https" if is_over_tls(scope) else b"http"),
        (CALLER_HEADER, signed),
    ]


def _is_of_other_page(scope: Scope, *, is_secure: bool) -> bool:
    """Whether a page of another origin sends this with the reader's cookie: other apps are on the
    same site, so the cookie goes along. A link from anywhere may be followed, but not into a frame:
    a click on the page around it could be one on the app."""
    origin = header(scope, "origin")
    host = called_hosts(scope["headers"])[0]
    if origin and origin != f"{'https' if is_secure else 'http'}://{host}":
        return True
    site = header(scope, "sec-fetch-site")
    is_link = header(scope, "sec-fetch-mode") == "navigate"
    is_framed = header(scope, "sec-fetch-dest") in FRAMES
    return site in ("same-site", "cross-site") and (is_framed or not is_link)


def _target(scope: Scope) -> bytes:
    """As the caller wrote it: nothing is decoded on the way."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + (b"?" + query if query else b"")


def _refusal(refused: Refused) -> Answer:
    """What a program with a token is told."""
    return Answer(refused.code, refused.sentence, answers.in_chinese(refused.sentence))


async def _redirect(send: Send, status: int, location: str, *headers: Header) -> None:
    all_headers = [
        (b"location", location.encode("latin-1")),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        *headers,
    ]
    await send_plain(send, status, all_headers, b"")
