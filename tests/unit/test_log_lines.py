"""The form of a log line, and that no secret is in one."""

import io
import json
import logging
import sys

import pytest

from agents.contract.log_lines import (
    JsonLines,
    TextLines,
    line_formatter,
    password_of,
    redaction,
)
from portal.log_context import LogContextFilter, log_fields
from portal.platform import Platform, platform_from, platform_secrets

SECRETS = ["correct-horse-battery", 'with"quote\\and-slash', "pässwörtlich-lang"]


@pytest.fixture
def lines():
    """What a logger writes, by format."""
    made, handlers = {}, []
    logger = logging.getLogger("tests.log_lines")
    logger.propagate, logger.level = False, logging.INFO
    for kind in ("json", "text"):
        made[kind] = io.StringIO()
        handlers.append(logging.StreamHandler(made[kind]))
        handlers[-1].addFilter(LogContextFilter())
        handlers[-1].setFormatter(line_formatter(kind, made[kind], SECRETS))
        logger.addHandler(handlers[-1])
    yield logger, made
    for handler in handlers:
        logger.removeHandler(handler)


def test_a_line_is_one_object_with_the_fields_of_its_context(lines):
    logger, made = lines
    with log_fields(task="plan", task_id="t-1", job="J-1"):
        logger.info("placed %s\nand %s", "J-2", "é", extra={"job": "J-2", "n": 3})
    logger.info("after")
    first, second = map(json.loads, made["json"].getvalue().splitlines())
    assert first.pop("at").endswith("Z") and len(second.pop("at")) == 24
    assert first == {
        "level": "info",
        "logger": "tests.log_lines",
        "event": "placed J-2\nand é",
        "job": "J-2",
        "n": 3,
        "task": "plan",
        "task_id": "t-1",
    }
    assert set(second) == {"level", "logger", "event"}
    assert (
        "INFO tests.log_lines [-] placed J-2\nand é job=J-2 n=3 task=plan"
        in made["text"].getvalue()
    )


def test_a_failure_is_on_the_line_of_its_message_with_its_trace(lines):
    logger, made = lines
    try:
        raise RuntimeError(f"refused {SECRETS[0]}")
    except RuntimeError:
        logger.exception("it failed")
    (line,) = map(json.loads, made["json"].getvalue().splitlines())
    assert line["event"] == "it failed" and line["trace"].endswith("RuntimeError: refused ***")


@pytest.mark.parametrize("secret", SECRETS)
def test_configured_secrets_are_hidden_wherever_they_stand(lines, secret):
    logger, made = lines
    logger.warning("message %s", secret, extra={"field": secret, "nested": {"a": [secret]}})
    for text in (out.getvalue() for out in made.values()):
        assert secret not in text and json.dumps(secret)[1:-1] not in text
        assert text.count("***") == 3
    json.loads(made["json"].getvalue())


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Agent 5f3a.VjN3-kd9_xQaa77", "Authorization: Agent ***"),
        ("Bearer tsr_0a1b2c3d4e5f60718293", "Bearer ***"),
        ("used tsr_0a1b2c3d", "used ***"),
        ("redis://broker:p4ss@redis:6379/1", "redis://broker:***@redis:6379/1"),
        ("basic dXNlcjpwYXNzd29yZDEyMw==", "basic ***"),
        ("agents keep their logs for now", "agents keep their logs for now"),
        ("token authentication-was-refused", "token authentication-was-refused"),
        ("http://portal.example:8000/a@b", "http://portal.example:8000/a@b"),
    ],
)
def test_what_has_the_shape_of_a_secret_is_hidden_and_words_are_not(text, hidden):
    assert redaction(())(text) == hidden


def test_short_words_are_no_secrets():
    assert redaction(["", "test"])("a test") == "a test"


def test_passwords_are_found_in_urls_as_written_and_as_meant():
    assert set(password_of("smtp://u:a%40b@mail")) == {"a%40b", "a@b"}
    assert password_of("http://[") == password_of("plain") == []
    platform = Platform(
        redis_url="redis://counts:first-word@r/0",
        s3_secret_key="second-word",
        metrics_token="third-word",
    )
    assert {"first-word", "second-word", "third-word"} <= set(platform_secrets(platform))


def test_text_is_for_terminals_and_json_for_everything_else(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    assert isinstance(line_formatter("", terminal), TextLines)
    assert isinstance(line_formatter("json", terminal), JsonLines)
    assert isinstance(line_formatter("", io.StringIO()), JsonLines)
    assert isinstance(line_formatter("text", sys.stderr), TextLines)
    with pytest.raises(ValueError, match="TESSERA_LOG_FORMAT"):
        platform_from({"TESSERA_LOG_FORMAT": "xml"})
