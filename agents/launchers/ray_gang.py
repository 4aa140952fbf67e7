"""Ray in one replica of a job: a file of launcher ray, run there with the job's own Python.

Rank 0 starts the head, waits until every rank has joined it, and runs the driver; its exit code is
the job's. Each other rank joins, and ends well as soon as the head is gone: what became of the job
is rank 0's to say. So a stop, too, waits for the driver, which may save with the help of all ranks.
Only the own Ray is ended, never that of another job on the same machine.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

JOIN_SECONDS = 300
LOOK_SECONDS = 0.5
# How often the head may miss a look before it counts as gone.
MISSES = 3
END_SECONDS = 15
# The node kills a stopped job at the end of its grace period, whose length is not known here.
DRIVER_SECONDS = 3_600
RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
# As if they ran in several machines, even where they do not.
PORTS = ("--dashboard-agent-listen-port", "0")


class Terminated(Exception):
    """SIGTERM arrived: the job is stopped."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-cpus", required=True)
    parser.add_argument("--num-gpus", required=True)
    parser.add_argument("--object-store-memory", default="")
    parser.add_argument("driver", nargs="+")
    given = parser.parse_args()
    sizes = ["--num-cpus", given.num_cpus, "--num-gpus", given.num_gpus]
    if given.object_store_memory:
        sizes += ["--object-store-memory", given.object_store_memory]
    signal.signal(signal.SIGTERM, _terminate)
    rank, world = int(os.environ["TESSERA_RANK"]), int(os.environ["TESSERA_WORLD_SIZE"])
    peers = [peer for peer in os.environ["TESSERA_PEERS"].split(",") if peer]
    meeting = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    try:
        if rank == 0:
            return run_head(meeting, world, sizes, given.driver)
        return run_worker(meeting, peers[rank] if rank < len(peers) else meeting[0], sizes)
    except Terminated:
        return 128 + signal.SIGTERM


def run_head(meeting: tuple[str, int], world: int, sizes: list[str], driver: list[str]) -> int:
    head = (socket.gethostbyname(meeting[0]), meeting[1])
    address = f"{head[0]}:{head[1]}"
    start = [*RAY, "--head", "--node-ip-address", head[0], "--port", str(head[1])]
    start += ["--include-dashboard", "false", *PORTS, *client_port()]
    with ray_node([*start, *sizes]) as node:
        wait_for(lambda: answers(head), node, "the head does not start")
        wait_for(lambda: joined(address) >= world, node, f"not all of {world} ranks have joined")
        say(f"all {world} ranks have joined: starting the driver")
        env = os.environ | {"RAY_ADDRESS": address}
        program = subprocess.Popen(driver, env=env)  # noqa: S603 - the user's own command
        try:
            while program.poll() is None:
                if node.poll() is not None:
                    say("the head has ended before its driver")
                    end(program)
                    return 1
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(LOOK_SECONDS)
        finally:
            end(program, DRIVER_SECONDS)
    code = program.returncode
    return code if code >= 0 else 128 - code


def run_worker(meeting: tuple[str, int], name: str, sizes: list[str]) -> int:
    # The name of rank 0 may be known only once that has started.
    wait_for(lambda: answers(meeting), None, f"no head at {meeting[0]}:{meeting[1]}")
    head, own = (socket.gethostbyname(meeting[0]), meeting[1]), socket.gethostbyname(name)
    address = f"{head[0]}:{head[1]}"
    with ray_node([*RAY, "--address", address, "--node-ip-address", own, *PORTS, *sizes]) as node:
        signal.signal(signal.SIGTERM, lambda *_: say("waiting for the driver to end"))
        misses = 0
        while misses < MISSES:
            time.sleep(LOOK_SECONDS)
            misses = 0 if answers(head) else misses + 1
            if node.poll() is not None and misses == 0:
                say(f"this rank's node of the cluster has ended with {node.returncode}")
                return node.returncode or 1
    say("the head has ended")
    return 0


def client_port() -> list[str]:
    """Ray's server for clients elsewhere would listen at one port in every job, and without gRPC
    there is none. Nobody is told where it is."""
    if importlib.util.find_spec("grpc") is None:
        return []
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ["--ray-client-server-port", str(probe.getsockname()[1])]


def joined(address: str) -> int:
    """How many nodes the cluster has. Asked in a process of its own, because a driver should find
    no other driver beside it."""
    program = (
        "import logging, ray; "
        f"ray.init({address!r}, logging_level=logging.ERROR, log_to_driver=False); "
        "print(sum(node['Alive'] for node in ray.nodes()))"
    )
    asked = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False
    )
    lines = asked.stdout.split()
    return int(lines[-1]) if asked.returncode == 0 and lines else 0


@contextlib.contextmanager
def ray_node(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A node of the cluster, which `ray start --block` takes with it when it ends."""
    # It would wait for work to move to other nodes, of a cluster that ends as a whole.
    env = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"} | os.environ
    node = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env)  # noqa: S603
    try:
        yield node
    finally:
        end(node)


def end(process: subprocess.Popen[bytes], seconds: float = END_SECONDS) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(
    condition: Callable[[], bool], node: subprocess.Popen[bytes] | None, otherwise: str
) -> None:
    until = time.monotonic() + JOIN_SECONDS
    while not condition():
        if node is not None and node.poll() is not None:
            sys.exit(f"ray: {otherwise}: ray start has ended with {node.returncode}")
        if time.monotonic() > until:
            sys.exit(f"ray: {otherwise} after {JOIN_SECONDS} s")
        time.sleep(LOOK_SECONDS)


def answers(head: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(head, timeout=5):
            return True
    except OSError:
        return False


def say(what: str) -> None:
    sys.stderr.write(f"ray: {what}\n")


def _terminate(*_: object) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
