"""A distributed job with only the standard library: ranks sum a vector over TCP, many times.

It reads the variables that every launcher sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Each
rank checks every sum and ends with one line of JSON. On SIGTERM, or when another rank is gone, it
writes a checkpoint; a run that finds rank 0's checkpoint continues from there. `--crash-rank N`
and `--hang-rank N` fail on purpose.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ELEMENTS = 4_096
MEET_SECONDS = 60
EXIT_TERMINATED = 143
RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
PLACE = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
CHECKPOINT = Path(os.environ.get("TESSERA_OUTPUT_DIR", ".")) / f"checkpoint-{RANK}.json"


class Terminated(Exception):
    """SIGTERM arrived: the time limit is over, or the job was stopped."""


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, _terminate)
    say(event="start", devices=os.environ.get("TESSERA_DEVICES", ""))
    began = time.monotonic()
    done, right = 0, True
    try:
        with gang() as links:
            done = start_round(links)
            say(event="gang", round=done)
            while right and (done < options.rounds or not all_agree(links, began, options.seconds)):
                misbehave(options)
                right = one_round(links, done)
                done += 1
    except (Terminated, ConnectionError) as end:
        CHECKPOINT.write_text(json.dumps({"round": done}), "utf-8")
        say(event="checkpoint", round=done, why=str(end) or "terminated")
        return EXIT_TERMINATED if isinstance(end, Terminated) else 1
    say(event="result", allreduce_ok=right, rounds=done, seconds=round(time.monotonic() - began, 3))
    return 0 if right else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="the least number of sums")
    parser.add_argument("--seconds", type=float, default=2.0, help="the least duration")
    parser.add_argument("--crash-rank", type=int, default=-1, help="this rank exits with 3")
    parser.add_argument("--hang-rank", type=int, default=-1, help="this rank waits forever")
    return parser.parse_args()


def start_round(links: list[socket.socket]) -> int:
    """Rank 0's checkpoint counts: the signal may reach the ranks in different rounds."""
    own = 0
    if RANK == 0 and CHECKPOINT.exists():
        own = json.loads(CHECKPOINT.read_text("utf-8"))["round"]
    return int(all_reduce(links, array.array("d", [own]))[0])


@contextlib.contextmanager
def gang() -> Iterator[list[socket.socket]]:
    """The connections of this rank: rank 0 has one to each rank, the others one to rank 0."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(link) for link in (accepted() if RANK == 0 else [joined()])]


def accepted() -> list[socket.socket]:
    if WORLD == 1:
        return []
    with socket.create_server(PLACE) as server:
        server.settimeout(MEET_SECONDS)
        return [server.accept()[0] for _ in range(WORLD - 1)]


def joined() -> socket.socket:
    """Retries, because rank 0 may start a moment later."""
    deadline = time.monotonic() + MEET_SECONDS
    while True:
        try:
            link = socket.create_connection(PLACE, timeout=MEET_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return link


def one_round(links: list[socket.socket], number: int) -> bool:
    """Each rank contributes rank + number in every element, so the sum over all ranks is known."""
    total = all_reduce(links, array.array("d", [float(RANK + number)]) * ELEMENTS)
    expected = float(sum(rank + number for rank in range(WORLD)))
    return all(value == expected for value in total)


def all_agree(links: list[socket.socket], began: float, seconds: float) -> bool:
    """Whether the time of every rank is over; the ranks must leave the loop together."""
    is_over = float(time.monotonic() - began >= seconds)
    return all_reduce(links, array.array("d", [is_over]))[0] == WORLD


def all_reduce(links: list[socket.socket], own: array.array[float]) -> array.array[float]:
    """The element-wise sum over all ranks, through rank 0."""
    if RANK != 0:
        links[0].sendall(own.tobytes())
        return received(links[0], len(own))
    for link in links:
        own = array.array("d", map(sum, zip(own, received(link, len(own)), strict=True)))
    for link in links:
        link.sendall(own.tobytes())
    return own


def received(link: socket.socket, elements: int) -> array.array[float]:
    values = array.array("d")
    left = elements * values.itemsize
    data = bytearray()
    while len(data) < left:
        chunk = link.recv(left - len(data))
        if not chunk:
            raise ConnectionError("another rank is gone")
        data += chunk
    values.frombytes(bytes(data))
    return values


def misbehave(options: argparse.Namespace) -> None:
    if options.crash_rank == RANK:
        sys.exit(3)
    while options.hang_rank == RANK:
        time.sleep(1)


def say(**facts: object) -> None:
    print(json.dumps({"rank": RANK, "world": WORLD, **facts}), flush=True)


def _terminate(*_: object) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
