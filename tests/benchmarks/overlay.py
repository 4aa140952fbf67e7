"""`make bench-overlay`: what a gang's network over two engines costs, beside a bridge of one.

Two engines on machines of namespaces, joined by a veth. One JSON object: for each network, the
bytes a second of one TCP connection between two replicas, and the time of a round trip of one byte.
OVERLAY_SECONDS (5) is how long each is measured, OVERLAY_ROUNDS (3) how often, in turn.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.contract.gang_network import OverlayKind
from agents.overlay.commands import WG, WIREGUARD_GO, installed
from tests.benchmarks.latency import machine
from tests.contract.replicas import a_gang
from tests.docker.gang_over_engines import Gang, a_gang_over
from tests.docker.two_engines import EngineMachine, two_engines

BRIDGE = "bridge"
PORT = 5_001
# Answers each byte at PORT, and swallows what comes to the port above.
SERVE = """
import socket, threading, sys
def echo(caller):
    while data := caller.recv(1):
        caller.sendall(data)
def swallow(caller):
    room = bytearray(1 << 20)
    while caller.recv_into(room):
        pass
def serve(port, answer):
    with socket.create_server(("", port)) as server:
        while True:
            caller = server.accept()[0]
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=answer, args=(caller,), daemon=True).start()
threading.Thread(target=serve, args=(int(sys.argv[1]) + 1, swallow), daemon=True).start()
serve(int(sys.argv[1]), echo)
"""
MEASURE = """
import json, socket, sys, time
host, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def call(port):
    for _ in range(200):
        try:
            return socket.create_connection((host, port), timeout=30)
        except OSError:
            time.sleep(0.05)
    raise SystemExit("nobody answers")
trips = []
with call(port) as there:
    there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        there.sendall(b"x")
        there.recv(1)
        trips.append(time.perf_counter() - begun)
block, sent = bytes(1 << 20), 0
with call(port + 1) as there:
    begun = time.monotonic()
    while (spent := time.monotonic() - begun) < seconds:
        there.sendall(block)
        sent += len(block)
trips.sort()
print(json.dumps({
    "mib_per_second": sent / spent / (1 << 20),
    "round_trip_us": {
        "p50": trips[len(trips) // 2] * 1e6, "p99": trips[len(trips) * 99 // 100] * 1e6,
    },
}))
"""


def main() -> int:
    seconds = os.environ.get("OVERLAY_SECONDS", "5")
    rounds = int(os.environ.get("OVERLAY_ROUNDS", "3"))
    measured: dict[str, list[dict[str, Any]]] = defaultdict(list)
    mtus: dict[str, int] = {}
    folder = tempfile.TemporaryDirectory(prefix="tessera-bench-")
    with folder as home, two_engines(Path(home)) as pair:
        for name in networks() * rounds:
            row, mtus[name] = measure(a_gang_on(name, pair), seconds)
            measured[name].append(row)
    found = {name: _median(rows) | {"mtu": mtus[name]} for name, rows in measured.items()}
    report = {"machine": machine(), "rounds": rounds, "seconds": float(seconds), "networks": found}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


MTU = 'print(open("/sys/class/net/eth0/mtu").read())'
ADDRESS = "import socket; print(socket.gethostbyname(socket.gethostname()))"


def networks() -> list[str]:
    """A bridge of one engine, and each kind of overlay that this machine has."""
    has_wireguard = installed(WG) and installed(WIREGUARD_GO)
    kinds = [kind for kind in OverlayKind if kind is OverlayKind.VXLAN or has_wireguard]
    return [BRIDGE, *map(str, kinds)]


def a_gang_on(network: str, pair: tuple[EngineMachine, EngineMachine]) -> Gang:
    if network != BRIDGE:
        return a_gang_over(pair, SERVE, str(PORT), kind=OverlayKind(network))
    runtime = pair[0].agent()
    replicas = [replace(r, command=(*r.command, str(PORT))) for r in a_gang(SERVE, 2)]
    return Gang((pair[0], pair[0]), [runtime, runtime], replicas)


def measure(gang: Gang, seconds: str) -> tuple[dict[str, Any], int]:
    """The row of one measurement, and the MTU. The gang is removed."""
    gang.prepare()
    gang.start()
    try:
        address = gang.inside(0, ADDRESS)
        row = json.loads(gang.inside(1, MEASURE, address, str(PORT), seconds))
        return row, int(gang.inside(0, MTU))
    finally:
        gang.remove()


def _median(rows: list[dict[str, Any]]) -> dict[str, Any]:
    trips = {
        each: round(statistics.median(row["round_trip_us"][each] for row in rows), 1)
        for each in ("p50", "p99")
    }
    speed = statistics.median(row["mib_per_second"] for row in rows)
    return {"mib_per_second": round(speed, 1), "round_trip_us": trips}


if __name__ == "__main__":
    sys.exit(main())
