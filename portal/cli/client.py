"""A client of REST v1: repeatable calls are retried, refusals become CommandFailed."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx

from portal.cli.config import PortalAccess
from portal.cli.connection import http_options, lasting_failure
from portal.cli.exit_codes import CommandFailed, ExitCode, failure_from_problem

BUSY_STATUSES = frozenset((429, 502, 503, 504))
MAX_TRIES = 4
MAX_PAUSE_SECONDS = 30.0
# Whole lists are read with as few calls as possible.
LARGEST_PAGE = {"page_size": 200}
OnBusy = Callable[[float], object]
TIMEOUT = httpx.Timeout(30.0, connect=10.0)


class Busy(Exception):
    """The portal asks to come again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"busy for {seconds} s")
        self.seconds = seconds


class Client:
    """Calls REST with the token of `access`. `transport` and `pause` are replaced in tests."""

    def __init__(
        self,
        access: PortalAccess,
        *,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], object] = time.sleep,
        version: str = "",
    ) -> None:
        self.access, self.pause = access, pause
        token = access.token
        if not (token.isascii() and token.isprintable() and " " not in token):
            sentence = "The token contains characters that tokens never have"
            raise CommandFailed("token_invalid", sentence, "tessera login", ExitCode.DENIED)
        # A transport, which only tests pass, has its own way.
        options = http_options(access) if transport is None else {"transport": transport}
        # Redirects are not followed: the token goes only to the address it was saved for.
        self.http = httpx.Client(
            base_url=f"{access.url}/api/v1/",
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json",
                "User-Agent": f"tessera-cli/{version}",
            },
            timeout=TIMEOUT,
            **options,
        )

    def get(self, path: str, hint: str = "", **params: Any) -> Any:
        return _json(
            self.call("GET", path, params=_without_empty(params), is_repeatable=True, hint=hint)
        )

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        key: str = "",
        is_repeatable: bool = False,
        hint: str = "",
        tries: int = MAX_TRIES,
        on_busy: OnBusy = lambda seconds: None,
        **params: Any,
    ) -> Any:
        """POST. Retried only with an idempotency key, or if the call `is_repeatable` by itself."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.call(
            "POST",
            path,
            params=_without_empty(params),
            body=body,
            headers=headers,
            is_repeatable=is_repeatable or bool(key),
            hint=hint,
            tries=tries,
            on_busy=on_busy,
        )
        return _json(answer)

    def put_bytes(self, path: str, data: bytes, **params: Any) -> Any:
        """PUT of bytes, which may be repeated."""
        return _json(self.call("PUT", path, params=params, content=data, is_repeatable=True))

    def rows(self, path: str, max_rows: int = 0, **params: Any) -> list[dict[str, Any]]:
        """The rows of a list over all of its pages, at most `max_rows` (0: all)."""
        rows: list[dict[str, Any]] = []
        for page in self._pages(path, LARGEST_PAGE | _without_empty(params)):
            rows += page
            if max_rows and len(rows) >= max_rows:
                return rows[:max_rows]
        return rows

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
        hint: str = "",
        tries: int = MAX_TRIES,
        on_busy: OnBusy = lambda seconds: None,
    ) -> httpx.Response:
        """The response, if it is a success. Raises CommandFailed otherwise. The body is the JSON of
        `body`, or `content` as it is.

        `on_busy` is called before each pause for a busy portal, with the seconds that it names.
        """
        given = dict(headers or {})
        if content is not None:
            given["Content-Type"] = "application/octet-stream"
        request = self.http.build_request(
            method, path, params=dict(params or {}), json=body, content=content, headers=given
        )
        for left in reversed(range(tries if is_repeatable else 1)):
            pause = min(2.0 ** (tries - left) / 4, MAX_PAUSE_SECONDS)
            try:
                answer = self.http.send(request)
            except httpx.TransportError as error:
                if failure := lasting_failure(self.access.url, error):
                    raise failure from error
                if not left:
                    raise _unreachable(self.access.url, error) from error
                self.pause(pause)
                continue
            if not left or not _is_busy(answer):
                break
            seconds = _retry_after(answer, pause)
            on_busy(seconds)
            self.pause(min(seconds, MAX_PAUSE_SECONDS))
        if answer.is_success:
            return answer
        raise _refused(answer, hint)

    @contextmanager
    def download(self, path: str, /, *, offset: int = 0, **params: Any) -> Iterator[httpx.Response]:
        """The answer from `offset` on, whose bytes the caller reads as they come.

        Raises CommandFailed, Busy, and httpx.TransportError where it is cut: what the caller has by
        then is good."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        with self.http.stream("GET", path, params=params, headers=headers) as answer:
            if answer.is_success:
                yield answer
                return
            answer.read()
            if _is_busy(answer):
                raise Busy(min(_retry_after(answer, 1), MAX_PAUSE_SECONDS))
            raise _refused(answer, "")

    def _pages(self, path: str, params: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
        while True:
            page = self.get(path, **params)
            yield list(page.get("results", []))
            following = parse_qs(urlsplit(page.get("next") or "").query)
            if not following.get("cursor"):
                return
            params = params | {"cursor": following["cursor"][0]}


def api_path(*parts: str) -> str:
    """A path from user input, quoted: "jobs", "../tokens" -> "jobs/..%2Ftokens"."""
    for part in parts:
        if not part or part in (".", ".."):
            raise CommandFailed(
                "name_invalid", f"{part!r} is not a name", "tessera ps", ExitCode.USAGE
            )
    return "/".join(quote(part, safe="") for part in parts)


def _is_busy(answer: httpx.Response) -> bool:
    """Whether to try again soon. A 409 with Retry-After: the first call with the same idempotency
    key is still running."""
    is_running = answer.status_code == 409 and "Retry-After" in answer.headers
    return answer.status_code in BUSY_STATUSES or is_running


def _without_empty(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value not in (None, "", [])}


def _json(answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    try:
        return answer.json()
    except ValueError as error:
        raise _no_portal(answer) from error


def _refused(answer: httpx.Response, hint: str) -> CommandFailed:
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, Mapping):
        return _no_portal(answer)
    return failure_from_problem(answer.status_code, problem, hint)


def _no_portal(answer: httpx.Response) -> CommandFailed:
    kind = answer.headers.get("content-type", "nothing").partition(";")[0]
    host = answer.request.url.host
    sentence = f"{host} is not a portal: it answered {answer.status_code} with {kind}"
    is_late = answer.status_code == 504
    return CommandFailed(
        "not_a_portal",
        sentence,
        "tessera login URL",
        ExitCode.TIMEOUT if is_late else ExitCode.FAILURE,
    )


def _unreachable(url: str, error: httpx.TransportError) -> CommandFailed:
    if isinstance(error, httpx.TimeoutException):
        sentence = f"{url} did not answer in time"
        return CommandFailed("timeout", sentence, "the same command again", ExitCode.TIMEOUT)
    sentence = f"{url} cannot be reached: {error}"
    return CommandFailed("unreachable", sentence, "tessera login URL, if the address is wrong")


def _retry_after(answer: httpx.Response, default: float) -> float:
    seconds = answer.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdecimal() else default
