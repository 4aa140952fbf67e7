"""Logs: the last lines, several replicas, a new attempt, and nothing harmful on a terminal."""

from __future__ import annotations

import httpx
import pytest

from portal.cli.commands import logs as subject
from tests.unit.cli.fake_rest import Rest, a_row, an_end

TEXT = b"".join(b"line %d\n" % number for number in range(1, 2_001))


def attempts(*numbers: int) -> list[dict]:
    return [{"number": n, "outcome": "", "replicas": []} for n in numbers]


def a_log(texts: dict[tuple[int, int], bytes]):
    """REST's answer by attempt and rank; what is not there yet is empty."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked = {name: int(value) for name, value in request.url.params.items()}
        text = texts.get((asked["attempt"], asked["rank"]), b"")
        part = text[asked["offset"] : asked["offset"] + asked["limit"]]
        following = str(asked["offset"] + len(part))
        headers = {"X-Next-Offset": following, "X-Log-Bytes": str(len(text))}
        return httpx.Response(200, content=part, headers=headers)

    return answer


def a_rest(text: bytes, **fields) -> Rest:
    rest = Rest().on("GET", "jobs/J-1", a_row("J-1", attempts=attempts(1), **fields))
    return rest.on("GET", "jobs/J-1/logs", a_log({(1, 0): text}))


def test_off_a_terminal_the_log_comes_byte_by_byte():
    evil = b"\x1b[31mred\r\n\xff\xfe\x00"
    assert a_rest(evil).run("logs", "J-1").stdout_bytes == evil


def test_a_long_log_comes_in_portions(monkeypatch):
    monkeypatch.setattr(subject, "MAX_BYTES", 1_000)
    assert a_rest(TEXT).run("logs", "J-1").stdout_bytes == TEXT


@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip()])
@pytest.mark.parametrize("lines", [1, 3, 1_999, 2_000, 5_000])
def test_the_last_lines(text: bytes, lines: int):
    out = a_rest(text).run("logs", "J-1", "--tail", str(lines)).stdout_bytes
    assert out == b"".join(text.splitlines(keepends=True)[-lines:])


def test_the_last_lines_are_found_however_long_they_are():
    text = b"a\n" + b"x" * 50_000 + b"\n" + b"y" * 50_000 + b"\n"
    assert a_rest(text).run("logs", "J-1", "-n", "2").stdout_bytes == text[2:]


def test_no_last_lines_are_none():
    assert a_rest(TEXT).run("logs", "J-1", "-n", "0").stdout_bytes == b""
    assert a_rest(b"").run("logs", "J-1", "-n", "5").stdout_bytes == b""


def test_a_terminal_gets_lines_without_anything_it_would_obey(monkeypatch):
    monkeypatch.setattr(subject, "is_terminal", lambda stream: True)
    rest = a_rest("\x1b]0;x\x07a\n10%\r20%\nlast é".encode())
    assert rest.run("logs", "J-1").stdout == "a\n10%\n20%\nlast é\n"
    assert "\x1b" in rest.run("logs", "J-1", "--raw").stdout


def test_a_character_cut_by_a_portion_stays_whole(monkeypatch):
    monkeypatch.setattr(subject, "is_terminal", lambda stream: True)
    monkeypatch.setattr(subject, "MAX_BYTES", 3)
    assert a_rest("日本語\n".encode()).run("logs", "J-1").stdout == "日本語\n"


def test_several_replicas_have_their_rank_before_each_line():
    rest = a_rest(b"", replicas=2)
    rest.on("GET", "jobs/J-1/logs", a_log({(1, 0): b"a\nb\n", (1, 1): b"c"}))
    assert rest.run("logs", "J-1", "--all").stdout == "[0] a\n[0] b\n[1] c\n"
    assert rest.run("logs", "J-1", "-r", "1").stdout == "c"


def test_following_goes_on_with_a_new_attempt_and_ends_with_the_job():
    first = a_row("J-1", status="running", attempts=attempts(1))
    second = a_row("J-1", status="running", attempts=attempts(1, 2))
    over = a_row("J-1", attempts=attempts(1, 2), **an_end("failed", 3, first=3))
    rest = Rest().on("GET", "jobs/J-1", first, first, second, over)
    rest.on("GET", "jobs/J-1/logs", a_log({(1, 0): b"one\n", (2, 0): b"two\n"}))
    done = rest.run("logs", "-f", "J-1")
    assert done.stdout == "one\ntwo\n" and done.exit_code == 0
    assert "Attempt 2" in done.stderr and "code 3" in done.stderr


def test_following_waits_for_the_start():
    started = a_row("J-1", attempts=attempts(1), **an_end("succeeded", 0))
    rest = Rest().on("GET", "jobs/J-1", a_row("J-1"), a_row("J-1"), started)
    rest.on("GET", "jobs/J-1/logs", a_log({(1, 0): b"one\n"}))
    done = rest.run("logs", "-f", "J-1")
    assert done.stdout == "one\n" and "position 3" in done.stderr


def test_ctrl_c_says_how_to_come_back():
    rest = a_rest(b"", status="running")

    def cut(request):
        raise KeyboardInterrupt

    rest.on("GET", "jobs/J-1", a_row("J-1", status="running", attempts=attempts(1)), cut)
    done = rest.run("logs", "-f", "J-1")
    assert done.exit_code == 0 and "tessera logs -f J-1" in done.stderr


def test_a_job_that_never_started_has_no_log():
    done = Rest().on("GET", "jobs/J-1", a_row("J-1")).run("logs", "J-1")
    assert done.exit_code == 3 and "Next: tessera why J-1" in done.stderr
