"""A container's log by offset: each byte once, in order, whatever happens to the agent."""

import time

import pytest

import agents.runtime.docker_recipe as options_module
from tests.contract.replicas import SECONDS, Watch, a_replica, go, whole_log

pytestmark = pytest.mark.docker

# Prints a block of numbered lines, says so, and goes on when it is told to by SIGUSR1.
BLOCKS = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
for block in range({blocks}):
    for line in range({lines}):
        print(f"{{block:02}}-{{line:04}}", "x" * {width}, flush=True)
    print("END", block, flush=True)
    if block < {blocks} - 1:
        signal.sigwait([signal.SIGUSR1])
"""
TWO_STREAMS = """
import sys
for line in range(200):
    print(line, file=(sys.stdout, sys.stderr)[line % 2], flush=True)
"""


def blocks(count: int, lines: int, width: int = 10) -> str:
    return BLOCKS.format(blocks=count, lines=lines, width=width)


def a_block(number: int, lines: int, width: int = 10) -> bytes:
    text = "".join(f"{number:02}-{line:04} {'x' * width}\n" for line in range(lines))
    return f"{text}END {number}\n".encode()


def go_on(docker_node, replica) -> None:
    # To the init process, which hands it to the program.
    docker_node.container(replica).kill(signal="SIGUSR1")


def test_every_line_of_both_streams_is_there_once(docker_node):
    replica = a_replica(TWO_STREAMS)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    assert sorted(map(int, whole_log(runtime, replica.id).split())) == list(range(200))


def test_any_chunk_size_gives_the_same_bytes(docker_node):
    replica = a_replica(blocks(1, 50))
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    assert whole_log(runtime, replica.id, 7) == whole_log(runtime, replica.id) == a_block(0, 50)


def test_a_line_longer_than_an_entry_of_the_engine_stays_one_line(docker_node):
    replica = a_replica("print('y' * 50_000); print('z' * 20_000); print('grüße')")
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    expected = f"{'y' * 50_000}\n{'z' * 20_000}\ngrüße\n".encode()
    assert whole_log(runtime, replica.id) == expected


def test_an_end_is_told_only_with_the_last_words(docker_node):
    replica = a_replica("print('x' * 200_000); print('last words')")
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    assert whole_log(runtime, replica.id).endswith(b"last words\n")


def test_what_is_said_while_no_agent_runs_is_found_by_the_next_one(docker_node):
    replica = a_replica(blocks(4, 100))
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.says(replica, b"END 0")
    for block in (1, 2, 3):
        runtime.close()
        go_on(docker_node, replica)
        runtime = docker_node.runtime()
        watch = Watch(runtime)
        watch.says(replica, f"END {block}".encode())
    assert watch.ended(replica).exit_code == 0
    assert whole_log(runtime, replica.id) == b"".join(a_block(n, 100) for n in range(4))


def test_a_copy_that_was_cut_anywhere_goes_on_without_a_gap(docker_node):
    replica = a_replica(blocks(1, 300))
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    runtime.close()
    log = docker_node.home / f"{replica.id}.log"
    marked = log.with_suffix(".mark").read_text()
    for size in (0, 1, 17, 2_000, log.stat().st_size - 1):
        log.write_bytes(a_block(0, 300)[:size])
        log.with_suffix(".mark").write_text(marked)
        again = docker_node.runtime()
        Watch(again).ended(replica)
        assert whole_log(again, replica.id) == a_block(0, 300), f"cut at {size}"
        again.close()


def test_every_line_is_there_once_when_the_engine_rotates_under_our_eyes(docker_node, small_files):
    replica = a_replica(blocks(3, 300, width=100))
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    for block in range(2):
        until_said(docker_node, replica, f"END {block}\n".encode())
        go_on(docker_node, replica)
    watch.ended(replica)
    assert numbered(whole_log(runtime, replica.id)) == lines_of(range(3), 300)


def test_no_line_comes_twice_when_the_engine_rotated_while_no_agent_ran(docker_node, small_files):
    replica = a_replica(blocks(9, 300, width=100))
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.says(replica, b"END 0\n")
    runtime.close()
    for block in range(1, 8):
        go_on(docker_node, replica)
        until_said(docker_node, replica, f"END {block}\n".encode())
    kept = numbered(docker_node.container(replica).logs())
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    watch.says(replica, b"END 7\n")
    go_on(docker_node, replica)
    watch.ended(replica)
    said = numbered(whole_log(runtime, replica.id))
    assert said[:300] == lines_of([0], 300), "what was copied before stays"
    assert said == sorted(set(said)), "a line came twice, or out of order"
    assert len(said) < 2_700, "the engine was to lose some, or this test shows nothing"
    assert set(kept) <= set(said), "what the engine still had is there"
    assert said[-300:] == lines_of([8], 300)


@pytest.fixture
def small_files(monkeypatch):
    """Two files that hold about three blocks of 300 long lines."""
    monkeypatch.setattr(options_module, "LOG_ROTATION", {"max-size": "100k", "max-file": "2"})


def numbered(log: bytes) -> list[str]:
    return [line.split()[0].decode() for line in log.splitlines() if not line.startswith(b"END")]


def lines_of(blocks, lines: int) -> list[str]:
    return [f"{block:02}-{line:04}" for block in blocks for line in range(lines)]


def until_said(docker_node, replica, words: bytes) -> None:
    """By asking the engine, whose own followers may fall silent when it rotates."""
    container, deadline = docker_node.container(replica), time.monotonic() + SECONDS
    while words not in container.logs(tail=1):
        assert time.monotonic() < deadline, f"waited in vain for {words!r}"


def test_the_log_driver_is_ours_whatever_the_engines_default(docker_node):
    replica = a_replica()
    docker_node.runtime().prepare(replica, ())
    told = docker_node.container(replica).attrs["HostConfig"]["LogConfig"]
    assert told == {"Type": "json-file", "Config": {"max-size": "64m", "max-file": "2"}}
