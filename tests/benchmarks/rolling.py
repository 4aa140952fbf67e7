"""Two web hosts behind the shipped proxy are restarted in turn, under load: `make bench-rolling`.

The hosts are network namespaces, configured by the files in deploy/ (tests/services/hosts.py). The
load comes from another one, through TLS. Prints as JSON what callers saw, beside how many jobs the
database has: none is doubled.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.services.hosts import NODE, PORTAL, PYTHON, TLS, Hosts, running_hosts
from tests.services.stack import ROOT

# Limits of one user, which are not what is measured.
RATES = {"TESSERA_RATE_CALLS": "1000000/min", "TESSERA_RATE_SUBMITS": "1000000/min"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--proxy", choices=("nginx", "caddy"), default="nginx")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tessera-rolling-") as folder:
        hosts = running_hosts(
            Path(folder), workers=(), beats=(), proxy=chosen.proxy, extra_env=RATES
        )
        with hosts as running:
            found = measure(running, chosen.requests, chosen.callers, chosen.streams)
    print(json.dumps({"proxy": chosen.proxy} | found, indent=2))


def measure(hosts: Hosts, requests: int, callers: int, streams: int) -> dict[str, Any]:
    """Restart web hosts in turn for as long as the load lasts."""
    begun, restarts, seconds = time.monotonic(), 0, []
    with load(hosts, requests, callers, streams) as program:
        assert program.stdout
        assert program.stdout.readline() == "begun\n"
        while program.poll() is None:
            seconds.append(restart(hosts, hosts.webs[restarts % len(hosts.webs)]))
            restarts += 1
        found: dict[str, Any] = json.loads(program.stdout.read())
    jobs = int(hosts.query("SELECT count(*) FROM jobs_job")[0])
    took = {"restarts": restarts, "restart_s": [round(each, 1) for each in seconds]}
    return took | {"seconds": round(time.monotonic() - begun, 1)} | found | {"jobs": jobs}


def restart(hosts: Hosts, web: str) -> float:
    """As `systemctl restart tessera-web` does, and until `/readyz` succeeds. Returns seconds."""
    begun = time.monotonic()
    process = hosts.running[web].process
    process.send_signal(signal.SIGTERM)
    process.wait()
    hosts.start_web(web)
    return time.monotonic() - begun


@contextlib.contextmanager
def load(
    hosts: Hosts, requests: int, callers: int, streams: int
) -> Iterator[subprocess.Popen[str]]:
    counts = (str(requests), str(callers), str(streams))
    words = (f"https://{PORTAL}", f"{TLS}/ca.pem", hosts.seeded["token"], *counts)
    command = (f"{PYTHON}/python", "-m", "tests.benchmarks.rolling_load", *words)
    program = subprocess.Popen(
        hosts.machines[NODE].command(command, ROOT),
        env=hosts.environ(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield program
    finally:
        program.kill()
        program.wait()
        if program.stdout:
            program.stdout.close()


if __name__ == "__main__":
    main()
