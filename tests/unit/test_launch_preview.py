"""The preview of a launch is what nodes do, told once where the replicas have it in common."""

import dataclasses

import pytest

from agents.launchers.preview import assumed_devices, assumed_rendezvous, gang_starts
from portal.submission.launch_preview import MAX_REPLICAS, launch_preview, requested_replica
from portal.web.request.launch_panel import launch_panel
from scheduler.core.request import RequestLimits, parse_request
from tests.support.both_sides import REQUEST

GANG = {"device": {"gpus": 2}, "launcher": "torchrun", "replicas": 2}


def a_preview(nodes=None, **fields):
    request = parse_request(REQUEST | fields, RequestLimits())
    return request, launch_preview(request, nodes or {})


@pytest.mark.parametrize(
    "fields", [{}, GANG, {"replicas": 3, "launcher": "entrypoint", "command": ["--model", "m"]}]
)
def test_what_is_common_and_what_is_a_replicas_own_are_its_start(fields):
    request, preview = a_preview(**fields)
    replica = requested_replica(request)
    starts = gang_starts(replica, assumed_rendezvous(replica.world), assumed_devices(replica))
    assert len(starts) == len(preview.replicas)
    for start, own in zip(starts, preview.replicas, strict=True):
        assert {**preview.environment, **own.environment} == start.environment
        assert {**preview.files, **own.files} == start.files
        assert preview.command + own.command == tuple(start.command)
        assert not preview.environment.keys() & own.environment.keys()


def test_replicas_differ_by_rank_and_name_the_nodes_of_a_placement():
    _, preview = a_preview({0: "n1", 1: "n2"}, **GANG)
    assert [(each.rank, each.node) for each in preview.replicas] == [(0, "n1"), (1, "n2")]
    assert [each.environment["PET_NODE_RANK"] for each in preview.replicas] == ["0", "1"]
    assert preview.environment["PET_NNODES"] == "2"
    assert preview.command == ("python", "-m", "torch.distributed.run", "sum.py")


def test_no_value_of_a_secret_is_in_it():
    env = {"HF_TOKEN": "hf_123", "SEED": "1"}
    _, preview = a_preview(env=env, secrets=["WANDB_API_KEY:env", "id_rsa"])
    assert preview.environment["SEED"] == "1"
    assert preview.environment["HF_TOKEN"] == "(hidden)"
    assert preview.environment["WANDB_API_KEY"] == "(from your secrets)"
    assert "hf_123" not in str(dataclasses.asdict(preview))


def test_the_page_lists_some_replicas_of_a_large_gang():
    _, preview = a_preview(**GANG | {"replicas": 20})
    panel = launch_panel(preview)
    assert [part.title for part in panel.parts[:2]] == ["Every replica", "Replica 0"]
    assert (len(panel.parts), panel.more) == (MAX_REPLICAS + 1, "and 12 more replicas")
    assert len(launch_panel(a_preview()[1]).parts) == 1


def test_a_preview_grows_no_faster_than_its_gang():
    """Each worker of TensorFlow is told all others."""

    def size(replicas):
        request = parse_request(
            REQUEST | {"launcher": "tensorflow", "replicas": replicas},
            RequestLimits(max_replicas=replicas),
        )
        return len(str(dataclasses.asdict(launch_preview(request, {}))))

    assert size(1_000) < 11 * size(100)
