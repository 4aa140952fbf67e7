"""Which devices hold a task, and what is refused."""

import json

import pytest

from agents.contract.boards import known_boards
from portal.advice.devices import cluster_devices
from portal.advice.fits import device_fits
from portal.advice.question import InvalidQuestion, Task
from portal.advice.reading import read_question
from portal.advice.requests import request_fields
from portal.advice.speed import serving_speed
from scheduler.advisor.errors import AdvisorError
from scheduler.core.availability.cluster import ClusterAvailability, NodeAvailability
from scheduler.core.availability.counts import Availability

H200 = "H200-141GB"


def a_cluster(**gpus: int) -> ClusterAvailability:
    """Nodes with so many H200 each."""
    counts = {name: Availability(gpus=n, in_service=n) for name, n in gpus.items()}
    nodes = {name: NodeAvailability({H200: each}) for name, each in counts.items()}
    whole = Availability(gpus=sum(gpus.values()), in_service=sum(gpus.values()))
    cluster = ClusterAvailability(0, nodes, {}, {}, {}, whole)  # type: ignore[arg-type]
    cluster.boards[H200] = whole
    cluster.board_table[H200] = known_boards()[H200]
    return cluster


def fits(cluster: ClusterAvailability, **values):
    question = read_question({"model": "llama3-8b", "task": "lora", **values})
    return question, device_fits(question, cluster_devices(cluster))


def test_the_smallest_that_fits_comes_first_and_too_small_ones_last():
    _question, found = fits(a_cluster(n1=8), batch=1, sequence=2048)
    fitting = [each for each in found if each.fits]
    assert fitting == found[: len(fitting)]
    assert [each.units for each in fitting] == sorted(each.units for each in fitting)
    assert fitting[0].device.profile is not None
    assert all(each.missing_bytes > 0 for each in found[len(fitting) :])


@pytest.mark.parametrize("task", list(Task))
def test_the_parts_add_up_and_each_has_a_formula_and_a_source(task):
    _question, found = fits(a_cluster(n1=8), task=str(task))
    for each in found:
        assert each.need.total == sum(part.bytes for part in each.need.parts)
        assert all(part.formula.text and part.source for part in each.need.parts)


def test_more_gpus_are_taken_where_one_is_not_enough_and_then_more_nodes():
    cluster = a_cluster(n1=8, n2=8, n3=2)
    _question, found = fits(cluster, task="finetuning", model="llama3-8b")
    whole = next(each for each in found if each.device.profile is None)
    assert (whole.nodes, whole.gpus, whole.fits) == (1, 2, True)
    question, found = fits(cluster, task="finetuning", model="llama3-70b", batch=16)
    whole = next(each for each in found if each.device.profile is None)
    assert (whole.nodes, whole.gpus, whole.fits) == (2, 16, True)
    fields = request_fields(question, whole)
    assert fields["replicas"] == 2 and fields["launcher"] == "torchrun"
    assert fields["device"] == {"gpus": 8, "models": ["H200"]}
    _question, found = fits(a_cluster(n1=1), task="finetuning", model="llama3-405b")
    assert not any(each.fits for each in found)


def test_a_served_model_is_divided_over_one_node_only():
    question, found = fits(a_cluster(n1=8, n2=8), task="inference", model="llama3-70b")
    whole = next(each for each in found if each.device.profile is None)
    assert whole.nodes == 1 and whole.fits
    command = request_fields(question, whole)["command"]
    assert command[:3] == ["vllm", "serve", "llama3-70b"]
    assert command[-2:] == ["--tensor-parallel-size", str(whole.gpus)]


def test_a_server_is_as_fast_as_its_part_of_the_board_and_a_training_has_no_speed():
    question, found = fits(a_cluster(n1=8), task="inference", concurrency=4, sequence=2048)
    speeds = {each.device.name: serving_speed(question, each) for each in found if each.fits}
    whole, half = speeds["H200"], speeds["H200 3g.71gb"]
    assert whole and half and whole.tokens_per_second > 1.5 * half.tokens_per_second
    assert whole.max_concurrency > half.max_concurrency >= 4
    question, found = fits(a_cluster(n1=8))
    assert {serving_speed(question, each) for each in found} == {None}


def test_a_model_that_writes_no_text_is_not_served():
    with pytest.raises(AdvisorError, match="writes text"):
        fits(a_cluster(n1=1), task="inference", model="bert-base-uncased")


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({}, "model", "Choose a model"),
        ({"model": "gpt-7"}, "model", "'gpt-7' is not in the catalogue"),
        ({"model": "llama3-8b", "config": "{}"}, "config", "not both"),
        ({"model": "llama3-8b", "task": "dreaming"}, "task", "pretraining"),
        ({"model": "llama3-8b", "batch": "0"}, "batch", "between 1 and 65,536"),
        ({"model": "llama3-8b", "batch": "-1"}, "batch", "between 1 and 65,536"),
        ({"model": "llama3-8b", "batch": "1e3"}, "batch", "between 1 and 65,536"),
        ({"model": "llama3-8b", "sequence": "1" + "0" * 30}, "sequence", "1,048,576"),
        ({"model": "llama3-8b", "concurrency": "many"}, "concurrency", "between 1"),
        ({"config": "["}, "config", "not a JSON object"),
        ({"config": "[" * 100_000}, "config", "not a JSON object"),
        ({"config": "[]"}, "config", "not a JSON object"),
        ({"config": json.dumps({"a": "b" * 300_000})}, "config", "larger than 256 KB"),
        ({"config": {"architectures": ["FooForCausalLM"]}}, "config", "FooForCausalLM"),
        ({"config": {"architectures": ["LlamaForCausalLM"]}}, "config", "num_attention_heads"),
    ],
)
def test_what_is_unknown_or_nonsense_is_said_at_its_field(values, field, said):
    with pytest.raises(InvalidQuestion) as raised:
        read_question({"task": "lora", **values})
    assert said in raised.value.errors[field].text
    assert raised.value.errors.keys() == {field}
