"""What the portal says on the host of an app is in English and in Chinese."""

import asyncio
import base64
import hashlib
import re

import pytest

from agents.contract.tunnel import StreamRefusal
from portal.apps import answers
from portal.tunnel.streams import stream_refused


@pytest.mark.parametrize("why", StreamRefusal)
def test_why_an_app_cannot_be_reached_is_said_in_both_languages(why):
    sentence = stream_refused(why).sentence
    answer = answers.no_way("J-12", sentence)
    assert sentence in answer.english
    assert sentence not in answer.chinese
    assert answers.in_chinese(sentence) in answer.chinese


def sent(answer, method="GET", accept=b"text/html"):
    """Headers and page."""
    said = []

    async def send(message):
        said.append(message)

    scope = {"type": "http", "method": method, "headers": [(b"accept", accept)]}
    asyncio.run(answers.send_answer(scope, send, answer))
    return dict(said[0]["headers"]), said[1]["body"].decode()


def test_the_page_of_an_app_that_starts_asks_again_by_itself():
    """So whoever pressed Open a second too early only waits."""
    headers, page = sent(answers.not_answering("J-12"))
    assert headers[b"refresh"] == b"3"
    assert "tries again by itself" in page


@pytest.mark.parametrize(
    ("answer", "method", "accept"),
    [
        (answers.not_entered("J-12"), "GET", b"text/html"),
        (answers.no_http("J-12"), "GET", b"text/html"),
        (answers.not_answering("J-12"), "POST", b"text/html"),
        (answers.not_answering("J-12"), "GET", b"application/json"),
    ],
)
def test_nothing_else_is_sent_again(answer, method, accept):
    headers, page = sent(answer, method, accept)
    assert b"refresh" not in headers and "by itself" not in page


def test_the_only_style_that_its_policy_allows_is_its_own():
    headers, page = sent(answers.not_entered("J-12"))
    (style,) = re.findall("<style>(.*?)</style>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = headers[b"content-security-policy"].decode()
    assert policy == f"default-src 'none'; frame-ancestors 'none'; style-src 'sha256-{digest}'"
