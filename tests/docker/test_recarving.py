"""Slices are carved and merged beside a running one: its container never notices."""

import docker
import pytest

from tests.services.stack import Stack, until

VISIBLE = "TESSERA_DEVICES="
pytestmark = pytest.mark.docker
BEAT = """
import itertools, time
for number in itertools.count():
    print(number, flush=True)
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_running_container_is_untouched_while_its_gpu_is_carved_anew(
    tmp_path, docker_engine, docker_image
):
    client = docker.DockerClient(base_url=docker_engine, version="1.41")

    def container(job: str):
        (found,) = client.containers.list(filters={"label": f"tessera.job={job}"})
        return found

    with Stack(var=tmp_path, docker_url=docker_engine, nodes=("node-a",), gpus=1) as stack:
        long = stack.submit(["python3", "-c", BEAT], device={"mig": "3g.71gb"})
        stack.until_status(long, "running")
        uid = stack.job(long)["uid"]
        before = container(uid).attrs["State"]
        (device,) = (e for e in container(uid).attrs["Config"]["Env"] if e.startswith(VISIBLE))
        driver = tmp_path / "nodes" / "node-a" / "driver.json"

        for profile in ("1g.18gb", "2g.35gb", "1g.35gb", "3g.71gb"):
            short = stack.submit(["true"], device={"mig": profile})
            seen = stack.until_status(short, "succeeded", "failed")
            assert seen["status"] == "succeeded", seen["result"]
            assert device.removeprefix(VISIBLE) in driver.read_text()
            until(lambda: sum(s["held"] for s in stack.call("GET", "/slices")["results"]) == 1)

        after = container(uid)
        assert after.attrs["State"]["Pid"] == before["Pid"]
        assert after.attrs["State"]["StartedAt"] == before["StartedAt"]
        assert after.attrs["RestartCount"] == 0
        stack.call("POST", f"/jobs/{long}/cancel")
        stack.until_status(long, "cancelled")
        lines = stack.call("GET", f"/jobs/{long}/logs").split()
        assert lines == [str(n) for n in range(len(lines))]
    client.close()
