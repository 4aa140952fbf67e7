"""Real PyTorch under launcher torchrun: two nodes, two processes each, one process group.

On demand: `TORCH_PYTHON=<a python with torch> make test`, or torch in the environment itself.
"""

import json

import pytest

from tests.services.real_python import python_with
from tests.services.stack import ROOT, Stack, until

pytestmark = [pytest.mark.services, pytest.mark.on_demand]
PROGRAM = str(ROOT / "docs" / "examples" / "torch_sum.py")


def test_four_ranks_on_two_nodes_agree_on_every_sum(tmp_path):
    command = [python_with("torch"), PROGRAM]
    with Stack(var=tmp_path) as stack:
        job = stack.submit(
            command,
            device={"gpus": 2},
            replicas=2,
            launcher="torchrun",
            topology="any",
            memory="2GiB",
        )
        seen = stack.until_status(job, "succeeded", "failed")
        logs = [stack.call("GET", f"/jobs/{job}/logs", params={"rank": r}) for r in (0, 1)]
        assert seen["status"] == "succeeded", logs

        def results() -> list[dict]:
            lines = [
                line
                for rank in (0, 1)
                for line in stack.call(
                    "GET", f"/jobs/{job}/logs", params={"rank": rank}
                ).splitlines()
            ]
            found = [json.loads(line) for line in lines if line.startswith("{")]
            return found if len(found) == 4 else []

        said = until(results, what="four results")
        assert {one["rank"] for one in said} == {0, 1, 2, 3}
        assert all(one["allreduce_ok"] and one["world"] == 4 for one in said)
