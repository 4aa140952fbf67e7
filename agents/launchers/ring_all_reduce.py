#!/usr/bin/env python3
"""An all-reduce over TCP sockets, with the options, the table and the exit codes of nccl-tests: a
file of launcher nccl-tests, for nodes whose GPUs are simulated and have no NCCL.

    ring_all_reduce.py -b 1M -e 4M -f 2 -n 3
    ring_all_reduce.py … --rounds 0:1,2:3/1:2,0:3     pairs of ranks, as pair_rounds.py has them

One process in each replica. Rank 0 listens where the gang meets, gathers where the others listen,
and tells everybody; then each sends to the next one and receives from the one before, as NCCL's
ring does. What it measures is TCP between two programs, and its first line says so. Standard
library only, for any Python from 3.8.

Bus bandwidth of an all-reduce over n ranks: size / time x 2 (n - 1) / n. Source: PERFORMANCE.md of
nccl-tests.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MEET_SECONDS = 60
RETRY_SECONDS = 0.1
# The reader of tables knows a ring by this line.
TITLE = "# all-reduce over TCP sockets between programs: not NCCL"
# And what belongs to which pair by this one, which is that of pair_rounds.py.
PAIR_TITLE = "# tessera: pair"
# Sums of so many ranks fit the two bytes of an element.
LANE, LARGEST, MOST_RANKS = 2, 251, 256
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def main() -> int:
    options = arguments()
    rank, world = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
    if not 2 <= world <= MOST_RANKS:
        sys.stderr.write(f"a ring has 2 to {MOST_RANKS} ranks, not {world}\n")
        return 1
    gang = meet(rank, world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if options.rounds:
        return 1 if measure_rounds(gang, options) else 0
    gang.leave()
    ring = gang.join(list(range(world)))
    return 1 if reduce_all(ring, options, lambda line: say(rank, line)) else 0


def reduce_all(ring: Ring, options: argparse.Namespace, write: Callable[[str], None]) -> int:
    """How many elements were wrong. `write`: takes each line of the table."""
    write(TITLE)
    write("#       size         count   type  redop  root      time   algbw   busbw #wrong")
    write("#        (B)    (elements)                            (us)  (GB/s)  (GB/s)")
    wrong, speeds, size = 0, [], options.minbytes
    while size <= options.maxbytes:
        seconds, bad = measured(ring, size // LANE, options.iters)
        wrong += bad
        algbw = size / seconds / 1e9
        busbw = algbw * 2 * (ring.world - 1) / ring.world
        speeds.append(busbw)
        timing = f"{seconds * 1e6:9.2f} {algbw:7.3f} {busbw:7.3f} {bad:6d}"
        write(f"{size:12d} {size // LANE:13d} uint16    sum    -1 {timing} {timing}")
        size *= options.stepfactor
    write(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
    write(f"# Avg bus bandwidth    : {sum(speeds) / max(1, len(speeds)):.6f}")
    return wrong


def measure_rounds(gang: RingGang, options: argparse.Namespace) -> int:
    """How many elements were wrong in the pairs of this rank. The tables of all come from rank 0,
    which has the next round begin when all have ended this one."""
    wrong = 0
    for names in options.rounds.split("/"):
        lines: list[str] = []
        mine = next((name for name in names.split(",") if gang.rank in ranks_of(name)), "")
        if mine:
            ring = gang.join(ranks_of(mine))
            wrong += reduce_all(ring, options, lines.append)
            ring.close()
        tables = gang.tell([mine, lines] if mine else [])
        for name in names.split(","):
            for line in (f"{PAIR_TITLE} {name}", *tables.get(name, ())):
                say(gang.rank, line)
    gang.leave()
    return wrong


def ranks_of(name: str) -> list[int]:
    return [int(rank) for node in name.split(":") for rank in node.split("+")]


def arguments() -> argparse.Namespace:
    """Those of nccl-tests that mean something here."""
    parser = argparse.ArgumentParser(description="an all-reduce over TCP sockets")
    parser.add_argument("-b", "--minbytes", type=read_size, default=1 << 20)
    parser.add_argument("-e", "--maxbytes", type=read_size, default=4 << 20)
    parser.add_argument("-f", "--stepfactor", type=int, default=2, choices=range(2, 1025))
    parser.add_argument("-n", "--iters", type=int, default=3)
    parser.add_argument("--rounds", default="")
    return parser.parse_args()


def read_size(text: str) -> int:
    unit = UNITS.get(text[-1:].upper(), 1)
    return max(LANE, int(text[:-1] if unit > 1 else text) * unit // LANE * LANE)


def say(rank: int, line: str) -> None:
    if rank == 0:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


# Meeting.


class Ring:
    """Connections from the rank before this one and to the one after it."""

    def __init__(self, place: int, world: int, before: socket.socket, after: socket.socket) -> None:
        self.place, self.world, self.before, self.after = place, world, before, after

    def close(self) -> None:
        self.before.close()
        self.after.close()


class RingGang:
    """All ranks: where each listens, and the way to rank 0."""

    def __init__(
        self,
        rank: int,
        host: str,
        own: socket.socket,
        places: dict[str, tuple[str, int]],
        channels: list[socket.socket],
    ) -> None:
        self.rank, self._host, self._own, self._places = rank, host, own, places
        # In rank 0 to all others, in these to rank 0.
        self._channels = channels

    def leave(self) -> None:
        """Nothing more is told."""
        for channel in self._channels:
            channel.close()

    def join(self, members: list[int]) -> Ring:
        """A ring of these ranks, this one among them."""
        place, world = members.index(self.rank), len(members)
        after_host, after_port = self._places[str(members[(place + 1) % world])]
        after = connection(after_host or self._host, after_port)
        send_message(after, {"rank": self.rank, "job": job()})
        while True:
            before, _ = self._own.accept()
            before.settimeout(MEET_SECONDS)
            with contextlib.suppress(ValueError, OSError):
                hello = receive_message(before)
                if hello.get("job") == job() and hello.get("rank") == members[(place - 1) % world]:
                    return Ring(place, world, before, after)
            before.close()

    def tell(self, table: list[Any]) -> dict[str, list[str]]:
        """Has each rank wait for all others. In rank 0: the tables that were told, by name."""
        if self.rank > 0:
            send_message(self._channels[0], {"table": table})
            receive_message(self._channels[0])
            return {}
        told = [table, *(receive_message(channel)["table"] for channel in self._channels)]
        for channel in self._channels:
            send_message(channel, {})
        tables: dict[str, list[str]] = {}
        for name, lines in filter(None, told):
            # All ranks of a pair have one: that of the first counts.
            tables.setdefault(name, lines)
        return tables


def meet(rank: int, world: int, host: str, port: int) -> RingGang:
    own = socket.create_server(("", port if rank == 0 else 0), backlog=world * 2)
    own.settimeout(MEET_SECONDS)
    if rank == 0:
        places, channels = gather(own, world)
        return RingGang(rank, host, own, places, channels)
    channel = connection(host, port)
    send_message(channel, {"rank": rank, "port": own.getsockname()[1], "job": job()})
    return RingGang(rank, host, own, receive_message(channel)["places"], [channel])


def job() -> str:
    return os.environ.get("TESSERA_JOB", "") + os.environ.get("TESSERA_ATTEMPT", "")


def gather(
    own: socket.socket, world: int
) -> tuple[dict[str, tuple[str, int]], list[socket.socket]]:
    """Where each rank listens; that of rank 0 has no host: all know it. And the connections of the
    others. Whoever does not belong here is sent away."""
    places: dict[str, tuple[str, int]] = {"0": ("", own.getsockname()[1])}
    callers = []
    while len(places) < world:
        channel, address = own.accept()
        channel.settimeout(MEET_SECONDS)
        try:
            hello = receive_message(channel)
            is_mine = hello.get("job") == job() and 0 < int(hello["rank"]) < world
        except (ValueError, KeyError, TypeError, OSError):
            is_mine = False
        if not is_mine:
            channel.close()
            continue
        places[str(hello["rank"])] = (address[0], int(hello["port"]))
        callers.append(channel)
    for channel in callers:
        send_message(channel, {"places": places})
    return places, callers


def connection(host: str, port: int) -> socket.socket:
    """Raises OSError if nobody listens there in time."""
    end = time.monotonic() + MEET_SECONDS
    while True:
        try:
            channel = socket.create_connection((host, port), timeout=MEET_SECONDS)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(RETRY_SECONDS)
            continue
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return channel


def send_message(channel: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    channel.sendall(struct.pack("!I", len(text)) + text)


def receive_message(channel: socket.socket) -> dict[str, Any]:
    """Raises ValueError for anything else."""
    (length,) = struct.unpack("!I", receive(channel, 4))
    if length > 1 << 16:
        raise ValueError("too long")
    message = json.loads(receive(channel, length))
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def receive(channel: socket.socket, length: int) -> bytes:
    """Raises OSError if the other side ends before."""
    data, at = bytearray(length), 0
    view = memoryview(data)
    while at < length:
        count = channel.recv_into(view[at:])
        if not count:
            raise ConnectionError("the other rank has ended")
        at += count
    return bytes(data)


# Reducing.


def measured(ring: Ring, count: int, rounds: int) -> tuple[float, int]:
    """Seconds of one all-reduce of `count` elements, the mean of `rounds`; and how many elements
    were wrong. One round before them is not counted."""
    mine = elements(count, ring.place)
    expected = added([elements(count, each) for each in range(ring.world)])
    wrong, seconds = 0, 0.0
    for turn in range(max(1, rounds) + 1):
        begun = time.perf_counter()
        found = all_reduce(mine, ring)
        if turn:
            seconds += time.perf_counter() - begun
        if found != expected:
            at = range(0, len(expected), LANE)
            wrong = max(wrong, sum(found[i : i + LANE] != expected[i : i + LANE] for i in at))
    return seconds / max(1, rounds), wrong


def elements(count: int, rank: int) -> bytes:
    """Small numbers that differ by place and by rank, two bytes each."""
    pattern = b"".join(struct.pack("<H", (at * 7 + rank * 3) % LARGEST) for at in range(LARGEST))
    size = count * LANE
    return (pattern * (size // len(pattern) + 1))[:size]


def added(parts: list[bytes]) -> bytes:
    """Element by element. As whole numbers: no element overflows into the next."""
    total = sum(int.from_bytes(part, "little") for part in parts)
    return total.to_bytes(len(parts[0]), "little")


def all_reduce(mine: bytes, ring: Ring) -> bytes:
    """The sum over all ranks: each part goes around once to be added, and once to be known."""
    world = ring.world
    parts = split(mine, world)
    for step in range(2 * (world - 1)):
        to_send, to_take = (ring.place - step) % world, (ring.place - step - 1) % world
        sender = threading.Thread(target=ring.after.sendall, args=(parts[to_send],))
        sender.start()
        found = receive(ring.before, len(parts[to_take]))
        sender.join()
        parts[to_take] = added([parts[to_take], found]) if step < world - 1 else found
    return b"".join(parts)


def split(data: bytes, world: int) -> list[bytes]:
    """Parts as equal as whole elements allow."""
    count = len(data) // LANE
    bounds = [count * part // world * LANE for part in range(world + 1)]
    return [data[bounds[part] : bounds[part + 1]] for part in range(world)]


if __name__ == "__main__":
    sys.exit(main())
