"""A request for several numbers of replicas: how it is written, and which sizes it has."""

import pytest

from scheduler.core.request import (
    InvalidRequest,
    ProblemCode,
    RequestLimits,
    parse_request,
    parse_stored_request,
    request_as_dict,
)
from scheduler.core.request.replica_range import replica_sizes
from scheduler.core.request_fields import count_range_words, read_count_range

GOOD = {
    "project": "vision",
    "name": "sum",
    "image": "registry.example/sum:1",
    "command": ["python", "sum.py"],
    "device": {"gpus": 2},
    "launcher": "torchrun",
}
TWO_TO_EIGHT = {"min": 2, "max": 8}
MEGATRON = {"launcher": "megatron", "replicas": TWO_TO_EIGHT}
BATCH = ["--micro-batch-size", "1", "--global-batch-size"]


def read(**fields):
    return parse_request(GOOD | fields, RequestLimits())


def problem(**fields):
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    (error,) = refused.value.errors
    return error


def test_a_number_means_both_and_a_range_comes_back_as_it_was_written():
    assert replica_sizes(read(replicas=4)) == ()
    assert request_as_dict(read(replicas=4))["replicas"] == 4
    assert read(replicas={"min": 4, "max": 4}) == read(replicas=4)
    request = read(replicas=TWO_TO_EIGHT)
    assert (request.replicas, request.most_replicas) == (2, 8)
    assert replica_sizes(request) == (2, 3, 4, 5, 6, 7, 8)
    stored = request_as_dict(request)
    assert stored["replicas"] == TWO_TO_EIGHT
    assert parse_stored_request(stored) == request


def test_a_size_that_the_program_cannot_have_is_left_out():
    request = read(**MEGATRON, command=["python", "pretrain.py", *BATCH, "24"])
    assert replica_sizes(request) == (2, 3, 4, 6)
    assert request_as_dict(request)["replicas"] == {"min": 2, "max": 6}
    assert replica_sizes(read(launcher="none", replicas=TWO_TO_EIGHT)) == tuple(range(2, 9))


NO_RANGE = "write a whole number, or the fewest and the most as {min: 2, max: 8}"
REFUSED = {
    "min over max": (
        {"replicas": {"min": 4, "max": 2}},
        *("replicas", ProblemCode.RANGE, "the fewest replicas, 4, are more than the most, 2"),
        {"replicas": {"min": 2, "max": 4}},
    ),
    "typed": (
        {"replicas": "2-8"},
        "replicas",
        ProblemCode.TYPE,
        NO_RANGE,
        {"replicas": TWO_TO_EIGHT},
    ),
    "one end": ({"replicas": {"min": 2}}, "replicas", ProblemCode.TYPE, NO_RANGE, {}),
    "another end": (
        {"replicas": TWO_TO_EIGHT | {"step": 2}},
        *("replicas", ProblemCode.TYPE, NO_RANGE, {}),
    ),
    "none": (
        {"replicas": {"min": 0, "max": 2}},
        *("replicas.min", ProblemCode.RANGE, "write a whole number from 1 to 64", {}),
    ),
    "a word": (
        {"replicas": {"min": 2, "max": "many"}},
        *("replicas.max", ProblemCode.TYPE, "write a whole number from 1 to 64", {}),
    ),
    "a launcher that cannot": (
        {"replicas": TWO_TO_EIGHT, "launcher": "jax"},
        *("replicas", ProblemCode.COMBINATION),
        "launcher jax starts a job with one number of replicas alone: write that number, or choose "
        "launcher torchrun",
        {"replicas": 2},
    ),
    "one size alone": (
        MEGATRON | {"command": ["python", "pretrain.py", *BATCH, "14"]},
        *("replicas", ProblemCode.COMBINATION),
        "of these numbers of replicas, the rest of the request allows 7 alone: write 7",
        {"replicas": 7},
    ),
    "no second try": (
        {"replicas": TWO_TO_EIGHT, "retries": {"infrastructure": 0, "user": 2}},
        *("retries.infrastructure", ProblemCode.COMBINATION),
        "a job that changes its number of replicas is started again: allow a retry after a node "
        "failure",
        {"retries": {"infrastructure": 1, "user": 2}},
    ),
}


@pytest.mark.parametrize(
    ("fields", "field", "code", "sentence", "mend"), REFUSED.values(), ids=REFUSED
)
def test_what_is_wrong_with_a_range_has_its_field_and_its_remedy(
    fields, field, code, sentence, mend
):
    error = problem(**fields)
    assert (error.field, error.code, error.sentence) == (field, code, sentence)
    assert dict(error.suggestion) == mend
    if mend:
        read(**fields | mend)


def test_where_no_size_is_allowed_the_least_has_its_own_problem():
    command = ["python", "pretrain.py", *BATCH, "17"]
    assert problem(**MEGATRON, command=command) == problem(
        **MEGATRON | {"replicas": 2}, command=command
    )


@pytest.mark.parametrize("text", ["2-8", " 2 - 8 ", "2–8", "2..8", "2~8"])
def test_people_type_a_range_with_any_dash(text):
    assert read_count_range(text) == TWO_TO_EIGHT
    assert count_range_words(TWO_TO_EIGHT) == "2-8"


def test_any_other_text_is_left_for_the_check():
    assert [read_count_range(text) for text in ("4", "-4", "many", "2-", "-2-8")] == [
        *(4, -4, "many", "2-", "-2-8")
    ]
