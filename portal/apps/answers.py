"""What the portal itself says on the host of an app: a plain page in both languages, or for
programs a problem as REST has it (RFC 9457)."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.template import loader
from django.utils import translation

from portal.apps.headers import Header
from portal.asgi_scope import Scope, Send, header
from portal.error_codes import ERROR_KINDS, ErrorCode
from portal.request_id import request_id

PAGE = "apps/answer.html"
# The portal serves no files on this host, so the page brings its style: ground, ink and link of
# portal/static/tokens.css. It has no character that a template would escape.
STYLE = (
    "body{max-width:36rem;margin:12vh auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;"
    "background:light-dark(#f6f5f2,#101114);color:light-dark(#1b1a18,#edecea)}"
    "p{margin:0.75rem 0}a{color:light-dark(#2f46c6,#8fa0ff)}code{overflow-wrap:anywhere}"
)
POLICY = (
    "default-src 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
# After which a browser asks again for a page of an app that does not answer yet.
RELOAD_SECONDS = 3
# Of a service without a copy that is ready.
RETRY_SECONDS = 10
# Another process of the portal takes the call by then.
RESTART_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal, or an app that does not answer. `place`: the label of the job or service whose
    page helps; empty for none."""

    code: ErrorCode
    english: str
    chinese: str
    place: str = ""
    retry_seconds: int = 0
    """After which a program may try again; 0 if that is not known."""

    @property
    def status(self) -> int:
        return ERROR_KINDS[self.code].status

    @property
    def passes(self) -> bool:
        """It may be another one in a moment: the app starts, or the node comes back."""
        return self.code in (ErrorCode.APP_NOT_ANSWERING, ErrorCode.APP_UNREACHABLE)


class CallRefused(Exception):
    """The call goes no further: this is the answer."""

    def __init__(self, answer: Answer, *, closes: bool = False) -> None:
        super().__init__(answer.code)
        self.answer, self.closes = answer, closes


NO_APP = Answer(
    ErrorCode.NOT_FOUND,
    "No app has this address. Open an app from the page of its job.",
    "没有应用使用这个地址。请从作业页面打开应用。",
)
TWO_FRAMINGS = Answer(
    ErrorCode.MALFORMED,
    "The request says in two ways how long its body is. Send Content-Length or Transfer-Encoding.",
    "请求以两种方式说明了正文长度。请只发送 Content-Length 或 Transfer-Encoding。",
)
NO_METHOD = Answer(
    ErrorCode.METHOD_NOT_ALLOWED,
    "Apps are not called with this method.",
    "应用不接受这种请求方法。",
)
OTHER_PAGE = Answer(
    ErrorCode.FORBIDDEN,
    "A page of another site sent this request with your cookie, so it does not reach the app.",
    "这个请求由其他网站的页面用你的 cookie 发出，因此不会到达应用。",
)
REST_TOKEN = Answer(
    ErrorCode.SCOPE_MISSING,
    "This token is for REST and opens no app. Create a token for apps on the page Apps.",
    "此令牌用于 REST，不能打开应用。请在“应用”页面创建应用令牌。",
)
CALL_LIMIT = Answer(
    ErrorCode.THROTTLED,
    "You have too many connections to this app open. Close some of its pages.",
    "你与这个应用的连接过多。请关闭它的一些页面。",
)

DATABASE_AWAY = Answer(
    ErrorCode.DATABASE_UNAVAILABLE,
    "The database does not respond. Try again.",
    "数据库没有响应。请重试。",
)


def wrong_tokens(seconds: int) -> Answer:
    """`seconds`: until the next one is looked up."""
    return Answer(
        ErrorCode.THROTTLED,
        f"Too many calls of your address had a wrong token. Try again in {seconds} s.",
        f"来自你的地址的错误令牌过多。请在 {seconds} 秒后重试。",
        retry_seconds=seconds,
    )


def in_chinese(sentence: str) -> str:
    """A constant sentence of the portal, as the pages have it."""
    with translation.override("zh-hans"):
        return translation.gettext(sentence)


def not_entered(place: str) -> Answer:
    return Answer(
        ErrorCode.NOT_AUTHENTICATED,
        f"Open this app from the page of {place}, or from the page Apps if somebody shares it "
        "with you. It opens while the job runs, for as long as you are signed in.",
        f"请从 {place} 的页面打开这个应用；如果是他人共享给你的，请从“应用”页面打开。"
        "作业运行且你保持登录时才能打开。",
        place,
    )


def ticket_gone(place: str) -> Answer:
    return Answer(
        ErrorCode.NOT_AUTHENTICATED,
        "An app opens within 30 seconds after Open, once, and only from a page of the portal. "
        f"Click Open for the app of {place} again.",
        f"点击“打开”后，应用只能在 30 秒内从门户页面打开一次。请再次打开 {place} 的应用。",
        place,
    )


def not_answering(place: str) -> Answer:
    return Answer(
        ErrorCode.APP_NOT_ANSWERING,
        f"The app of {place} does not answer yet. Its log shows what it is doing; ask again "
        "once it has started.",
        f"{place} 的应用尚未响应。日志会显示它在做什么；启动完成后请重试。",
        place,
    )


def no_way(place: str, sentence: str) -> Answer:
    return Answer(
        ErrorCode.APP_UNREACHABLE,
        f"The app of {place} cannot be reached now. {sentence}. The job's log shows what it does.",
        f"现在无法连接 {place} 的应用：{in_chinese(sentence)}。作业日志会显示它在做什么。",
        place,
    )


def cut_off(place: str) -> Answer:
    return Answer(
        ErrorCode.APP_UNREACHABLE,
        f"The connection to the app of {place} broke before it answered. It may have begun to "
        "handle the request.",
        f"与 {place} 的应用的连接在其响应之前中断。应用可能已开始处理请求。",
        place,
    )


def restarting(place: str) -> Answer:
    return Answer(
        ErrorCode.APP_UNREACHABLE,
        "The portal restarts. Send the request again.",
        "门户正在重启。请重新发送请求。",
        place,
        RESTART_SECONDS,
    )


def not_ready(place: str) -> Answer:
    return Answer(
        ErrorCode.APP_UNREACHABLE,
        f"No copy of {place} is ready, and too many calls wait or this one has waited for two "
        f"minutes. The page of {place} shows why; try again in a while.",
        f"{place} 没有就绪的实例，等待的调用过多，或此调用已等待两分钟。"
        f"{place} 的页面会显示原因；请稍后重试。",
        place,
        RETRY_SECONDS,
    )


def no_http(place: str) -> Answer:
    return Answer(
        ErrorCode.APP_ANSWER_BROKEN,
        f"What the app of {place} answered is not HTTP, or its headers are longer than 64 KiB.",
        f"{place} 的应用返回的内容不是 HTTP，或其标头超过 64 KiB。",
        place,
    )


async def send_answer(scope: Scope, send: Send, answer: Answer, *, closes: bool = False) -> None:
    """`closes`: a part of the request may not have been read."""
    headers, body = _written(scope, answer)
    if closes:
        headers = [*headers, (b"connection", b"close")]
    await send_plain(send, answer.status, headers, body)


async def send_plain(send: Send, status: int, headers: Sequence[Header], body: bytes) -> None:
    all_headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def refuse_websocket(scope: Scope, send: Send, answer: Answer) -> None:
    """The same before a WebSocket is accepted."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": answer.code})
        return
    headers, body = _written(scope, answer)
    start = {"type": "websocket.http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": body})


def _written(scope: Scope, answer: Answer) -> tuple[list[Header], bytes]:
    headers: list[Header] = [
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]
    if answer.retry_seconds:
        headers.append((b"retry-after", str(answer.retry_seconds).encode()))
    if answer.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if "text/html" in header(scope, "accept"):
        headers += [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", POLICY.encode()),
        ]
        reloads = answer.passes and scope.get("method") == "GET"
        if reloads:
            headers.append((b"refresh", str(RELOAD_SECONDS).encode()))
        return headers, _page(answer, reloads=reloads)
    problem = {
        "type": "about:blank",
        "title": ERROR_KINDS[answer.code].title,
        "status": answer.status,
        "code": str(answer.code),
        "detail": answer.english,
        "request_id": request_id(),
    }
    headers.append((b"content-type", b"application/problem+json"))
    return headers, json.dumps(problem).encode()


def _page(answer: Answer, *, reloads: bool) -> bytes:
    portal = settings.PLATFORM.public_url.rstrip("/")
    is_linked = bool(portal and answer.place)
    is_service = answer.place.startswith("S-")
    pages = "services" if is_service else "jobs"
    values = {
        "answer": answer,
        "style": STYLE,
        "reloads": reloads,
        "link": f"{portal}/{pages}/{answer.place}/" if is_linked else "",
        # A guest does not see the job.
        "apps_link": f"{portal}/apps/" if is_linked and not is_service else "",
        "request_id": request_id(),
    }
    return loader.get_template(PAGE).render(values).encode()
