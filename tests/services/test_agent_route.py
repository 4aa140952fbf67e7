"""A node whose portal has a certificate of a private authority and is reached through a proxy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.environment.programs import free_port
from tests.services.stack import ROOT, Stack, until
from tests.support.certificates import pair
from tests.support.relays import connect_proxy, tls_front

pytestmark = [pytest.mark.services, pytest.mark.slow]

NODE = "node-a"
NAME = "portal.example"
# The first one is known to the proxy, but nothing listens there.
ADDRESSES = (f"https://{NAME}:8443", f"https://{NAME}")


def test_it_enrols_syncs_and_runs_a_job_past_an_address_that_is_down(tmp_path):
    """Nobody but the proxy knows the portal's name, so no call can go another way."""
    authority, var = pair("an authority"), tmp_path / "var"
    ca_file = tmp_path / "ca.pem"
    stack = Stack(var=var, nodes=(NODE,), agent_addresses=ADDRESSES)
    front = tls_front(tmp_path, pair(NAME, authority), stack.port)
    ports = {f"{NAME}:8443": free_port()}
    with front as port, connect_proxy(ports, "me:word") as proxy:
        ports[f"{NAME}:443"] = port
        stack.extra_env |= {
            "TESSERA_CA_FILE": str(ca_file),
            "TESSERA_PROXY": f"http://me:word@127.0.0.1:{proxy.port}",
            # Of other programs; the agent does not believe it.
            "HTTPS_PROXY": "http://127.0.0.1:9",
        }
        ca_file.write_text(pair("another authority").certificate)
        try:
            stack.seed("tests.services.seed", NODE)
            stack.start_worker()
            stack.start_web()
            stack.start_agent(NODE)
            until(
                lambda: "portal_barred" in stack.log(NODE),
                what="the error to be logged",
            )
            assert "is not trusted" in stack.log(NODE)
            stack.kill(NODE)
            ca_file.write_text(authority.certificate)
            stack.start_agent(NODE)
            stack.until_online()
            until(lambda: "tunnel_open" in stack.log(NODE), what="its tunnel")
            job = stack.submit(["python3", "-c", "print('through the proxy')"])
            stack.until_status(job, "succeeded")
            found = doctor(stack)
        finally:
            stack.__exit__()
    assert f"{NAME}:443" in proxy.targets and "word" not in stack.log(NODE)
    assert found["portal.clock"] == "ok"
    assert found["portal.reach"] == "warn", "one of its two addresses is down"
    assert found["portal.certificate"] == "warn", "a test's certificate ends tomorrow"


def doctor(stack: Stack) -> dict[str, str]:
    """The verdict of each check by the environment of the stack's node."""
    state = str(stack.var / "nodes" / NODE / "driver.json")
    command = [sys.executable, "-m", "agents", "doctor", "--json", "--runtime", "process"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=stack.env
        | {"TESSERA_SIMULATED_DRIVER": state, "TESSERA_PORTAL_URL": ",".join(ADDRESSES)},
        capture_output=True,
        text=True,
        check=False,
    )
    return {row["code"]: row["verdict"] for row in json.loads(done.stdout)["findings"]}
