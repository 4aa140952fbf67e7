"""An S3-compatible object store: OpenStack Swift with its S3 interface, on free loopback ports.

Swift is what sites run beside or instead of Ceph and AWS; Debian packages it. One device, one
replica, no background daemons: objects are files with extended attributes under its home.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from tests.environment.debian import SWIFT, SWIFT_BACKENDS
from tests.environment.levels import skip_without
from tests.environment.programs import Program, free_port, temporary_home

ACCOUNT = "tessera"
USER = "portal"
ACCESS_KEY = f"{ACCOUNT}:{USER}"
SECRET_KEY = "not-a-secret"
REGION = "us-east-1"
BUCKET = "tessera-test"
PIPELINE = (
    "catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth slo proxy-server"
)
BACKENDS = ("account", "container", "object")

BACKEND_CONFIG = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {home}
devices = {home}/devices
mount_check = false
workers = 0
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

# `cache` is required by tempauth, which works without an answering memcached: port 9 is closed.
PROXY_CONFIG = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {home}
workers = 0
[pipeline:main]
pipeline = {pipeline}
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# A busy machine answers late; the defaults are 0.5 and 10 s.
conn_timeout = 10
node_timeout = 60
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:9
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
[filter:s3api]
use = egg:swift#s3api
location = {region}
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{name} = {secret} .admin
"""


class ObjectStore:
    """The server. After `kill` and `start` it has what it had: objects are on disk."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self._ports = {kind: free_port() for kind in BACKENDS}
        self._programs: list[Program] = []
        self._configure()

    @property
    def endpoint(self) -> str:
        """What TESSERA_S3_ENDPOINT takes."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """The settings of a portal that keeps its bytes here."""
        return {
            "TESSERA_S3_BUCKET": BUCKET,
            "TESSERA_S3_ENDPOINT": self.endpoint,
            "TESSERA_S3_REGION": REGION,
            "TESSERA_S3_ACCESS_KEY": ACCESS_KEY,
            "TESSERA_S3_SECRET_KEY": SECRET_KEY,
        }

    def start(self) -> None:
        """Start it, or start it again on the same ports."""
        self._programs = [self._program(kind) for kind in (*BACKENDS, "proxy")]
        # A request that comes before the backends listen is an error of the store.
        for program, port in zip(self._programs, self._ports.values(), strict=False):
            program.wait_ready(partial(_listens, port))
        self._programs[-1].wait_ready(self._answers)

    def make_bucket(self) -> None:
        """As an operator does once; the portal itself needs no right to."""
        config = Config(
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            # The proxy leaves out a backend that was late, for a while.
            retries={"mode": "standard", "max_attempts": 12},
        )
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=config,
        )
        client.create_bucket(Bucket=BUCKET)

    def stop(self) -> None:
        for program in reversed(self._programs):
            program.stop()

    def kill(self) -> None:
        """End it as a power cut would."""
        for program in self._programs:
            program.kill()

    def _program(self, kind: str) -> Program:
        command = [f"/usr/bin/swift-{kind}-server", str(self.home / f"{kind}.conf")]
        return Program(command, log=self.home / f"{kind}.log", environ=os.environ)

    def _configure(self) -> None:
        (self.home / "devices" / "disk").mkdir(parents=True, exist_ok=True)
        words = {"user": getpass.getuser(), "home": self.home}
        for kind, port in self._ports.items():
            text = BACKEND_CONFIG.format(kind=kind, port=port, **words)
            (self.home / f"{kind}.conf").write_text(text)
            self._make_ring(kind, port)
        identity = {"account": ACCOUNT, "name": USER, "secret": SECRET_KEY, "region": REGION}
        proxy = PROXY_CONFIG.format(port=self.port, pipeline=PIPELINE, **words, **identity)
        (self.home / "proxy.conf").write_text(proxy)

    def _make_ring(self, kind: str, port: int) -> None:
        builder = self.home / f"{kind}.builder"
        for words in (
            ("create", "4", "1", "0"),
            ("add", f"r1z1-127.0.0.1:{port}/disk", "1"),
            ("rebalance",),
        ):
            command = ["/usr/bin/swift-ring-builder", str(builder), *words]
            subprocess.run(command, check=True, capture_output=True, cwd=self.home)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/healthcheck", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def running_object_store() -> Iterator[ObjectStore]:
    """A store for as long as the block runs; for programs that are not tests too."""
    with temporary_home("s3") as home, contextlib.ExitStack() as stack:
        store = ObjectStore(home)
        stack.callback(store.stop)
        store.start()
        store.make_bucket()
        yield store


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """One store for the session; a test takes a prefix of its own."""
    for tool in (SWIFT, *SWIFT_BACKENDS):
        skip_without(tool)
    with running_object_store() as store:
        yield store
