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


ONE_EACH = {"device": {"gpus": 1}, "launcher": "torchrun", "replicas": 4}


def test_replicas_of_one_node_are_shown_in_the_container_that_they_share():
    _, preview = a_preview({0: "n1", 1: "n1", 2: "n2", 3: "n2"}, **ONE_EACH)
    assert preview.joined_replicas == 2
    assert preview.sharing.text.startswith("Each container runs 2 of the 4 replicas")
    assert [(each.rank, each.node) for each in preview.replicas] == [(0, "n1"), (1, "n2")]
    sizes = [preview.environment[name] for name in ("PET_NNODES", "PET_NPROC_PER_NODE")]
    assert sizes == ["2", "2"]
    assert preview.replicas[1].environment["TESSERA_DEVICES"] == "GPU-1-0,GPU-1-1"
    panel = launch_panel(preview)
    titles = ["Every container", "Container 0 on n1", "Container 1 on n2"]
    assert [part.title for part in panel.parts] == titles
    assert panel.sharing == preview.sharing.text


def test_before_a_gang_is_placed_its_topology_says_whether_one_container_has_it_all():
    _, anywhere = a_preview(**ONE_EACH)
    assert (anywhere.joined_replicas, len(anywhere.replicas)) == (1, 4)
    assert anywhere.sharing.text.startswith("Replicas that come to one node share a container")
    _, together = a_preview(**ONE_EACH, topology="same-node")
    assert (together.joined_replicas, len(together.replicas)) == (4, 1)
    assert together.environment["PET_NPROC_PER_NODE"] == "4"


@pytest.mark.parametrize(
    "fields",
    [
        {"containers": "per-replica", "topology": "same-node"},
        {"launcher": "none"},
        {"device": {"mig": "2g.35gb"}},
    ],
)
def test_where_each_replica_has_its_own_container_nothing_is_said(fields):
    _, preview = a_preview(dict.fromkeys(range(4), "n1"), **ONE_EACH | fields)
    assert (preview.joined_replicas, len(preview.replicas)) == (1, 4)
    assert not preview.sharing.text
