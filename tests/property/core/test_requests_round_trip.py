"""Any request that is accepted reads back from every form; any input at all is read or refused."""

import json
from datetime import UTC, datetime, timedelta, timezone

import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.snapshot import Priority, Topology
from scheduler.core.request import (
    InvalidRequest,
    JobKind,
    ProblemCode,
    RequestLimits,
    parse_request,
    parse_stored_request,
    request_as_dict,
    request_as_yaml,
)
from scheduler.core.request.quantities import (
    MAX_AMOUNT,
    read_cpu_milli,
    read_memory_mib,
    read_seconds,
    write_cpu,
    write_memory,
    write_seconds,
)
from tests.support.examples import examples

many = examples(200)
LIMITS = RequestLimits()
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
env_names = st.from_regex(r"X[A-Za-z0-9_]{0,9}", fullmatch=True)
words = st.lists(texts, min_size=1, max_size=4)
amounts = st.integers(1, MAX_AMOUNT)
memory = st.integers(4, 10**6).map(write_memory)
devices = st.one_of(
    st.builds(dict, gpus=st.integers(1, 1_024)),
    st.builds(dict, mig=st.sampled_from(["1g.18gb", "1g.18gb+me", "7g.141gb"])),
    st.builds(dict, memory=memory),
    st.builds(dict, mps=st.builds(dict, threads=st.integers(1, 100), memory=memory)),
)
narrow = st.fixed_dictionaries(
    {},
    optional={
        "models": st.lists(st.sampled_from(["H200", "A30-24GB", "NVIDIA L40S"]), max_size=3),
        "isolation": st.sampled_from(["hardware", "any"]),
    },
)
begins = st.one_of(
    st.integers(1, 366 * 86_400).map(lambda seconds: f"+{write_seconds(seconds)}"),
    st.datetimes(
        datetime(2000, 1, 2),  # noqa: DTZ001 - the strategy adds the zone
        datetime(2099, 12, 30),  # noqa: DTZ001
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))]),
    ).map(datetime.isoformat),
)
node_words = st.lists(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,9}(=[A-Za-z0-9._-]{1,9})?", fullmatch=True),
    max_size=4,
)


def joined(way, more):
    """A share says by itself that it takes any isolation."""
    return way | (more | {"isolation": "any"} if "mps" in way else more)


def as_its_kind_may(body):
    """A notebook has one replica and no profiler."""
    if body.get("kind") == JobKind.NOTEBOOK:
        body.pop("replicas", None)
        body.pop("profiler", None)
    return body


IMAGE = r"([a-z]{2,8}\.[a-z]{2}/)?[g-z][a-z0-9]{0,8}([._-][a-z0-9]{1,4})?(:[A-Za-z0-9]{1,8})?"
counts = st.integers(1, 32)
bodies = st.fixed_dictionaries(
    {
        "project": names,
        "name": names,
        "image": st.from_regex(IMAGE, fullmatch=True),
        "command": words,
        "device": st.builds(joined, devices, narrow),
    },
    optional={
        "kind": st.sampled_from(list(JobKind)).map(str),
        "replicas": st.integers(1, 64)
        | st.builds(lambda min, more: {"min": min, "max": min + more}, counts, counts),
        "cpu": st.integers(1, 10**6).map(write_cpu),
        "memory": memory,
        "shm": memory,
        "disk": memory,
        "time_limit": st.integers(1, 604_800),
        "priority": st.sampled_from(list(Priority)).map(str),
        "topology": st.sampled_from(list(Topology)).map(str),
        "backend": st.sampled_from(["auto", "gloo"]),
        "rdma": st.sampled_from(["auto", "off"]),
        "containers": st.sampled_from(["per-node", "per-replica"]),
        "preflight": st.just("none"),
        "profiler": st.sampled_from(["none", "pytorch"]),
        "retries": st.fixed_dictionaries({}, optional={"user": st.integers(0, 10)}),
        "grace": st.integers(1, 3_600).map(write_seconds),
        "env": st.dictionaries(env_names, texts, max_size=3),
        "volumes": st.lists(
            st.sampled_from(["a:/data", "b:/more:ro", {"volume": "c", "path": "/most"}]),
            max_size=3,
            unique_by=str,
        ),
        "apps": st.lists(st.sampled_from(["web:8080", "lab:8888"]), max_size=2, unique=True),
        "preemptible": st.booleans(),
        "idle_stop": st.booleans(),
        "progress_limit": st.builds(
            "{}{}".format,
            st.integers(600, 86_400).map(write_seconds),
            st.sampled_from(["", ":warn", ":stop"]),
        ),
        "begin_at": begins,
        "after": st.lists(
            st.builds(
                "{}{}{}".format,
                st.sampled_from(["J-", "A-"]),
                st.integers(1, 10**12),
                st.sampled_from(["", ":ended"]),
            ),
            max_size=4,
        ),
        "secrets": st.lists(
            st.sampled_from(["HF_TOKEN", "AWS_KEY:env", {"name": "W", "as": "env"}]), max_size=3
        ),
        "notify": st.lists(st.sampled_from(["email", "webhook:ci"]), max_size=3),
        "needs": node_words,
        "tolerates": node_words,
    },
).map(as_its_kind_may)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
LEAST = {"project": "p", "name": "n", "image": "i", "command": ["c"], "device": {"gpus": 1}}
CONDITIONS = {"begin_at", "after", "notify", "needs", "tolerates", "disk"}
FIELDS = sorted(CONDITIONS | set(request_as_dict(parse_request(LEAST, LIMITS))))


@many
@given(body=bodies)
def test_a_request_survives_json_yaml_and_storage(body):
    request = parse_request(body, LIMITS)
    stored = request_as_dict(request)
    assert parse_request(json.loads(json.dumps(stored)), LIMITS) == request
    assert parse_request(yaml.safe_load(request_as_yaml(request)), LIMITS) == request
    assert request_as_dict(parse_stored_request(stored)) == stored


@many
@given(body=bodies, field=st.sampled_from(FIELDS), value=anything)
def test_whatever_stands_in_a_field_is_read_or_refused_with_a_sentence(body, field, value):
    try:
        request = parse_request(body | {field: value}, LIMITS)
    except InvalidRequest as refused:
        assert refused.errors
        for error in refused.errors:
            assert error.field.partition(".")[0] in {field, "processes", "backend"}
            assert error.code in ProblemCode and error.sentence
    else:
        assert parse_request(request_as_dict(request), LIMITS) == request


@many
@given(body=anything)
def test_whatever_is_sent_is_refused_and_never_breaks_the_reader(body):
    try:
        parse_request(body, LIMITS)
    except InvalidRequest as refused:
        assert refused.errors
    else:
        raise AssertionError("a request has a project, a name, an image, a command and a device")


@many
@given(amount=amounts)
def test_an_amount_that_is_written_reads_back(amount):
    assert read_memory_mib(write_memory(amount)) == amount
    assert read_seconds(write_seconds(amount)) == amount
    cores = amount % 10**9 or 1
    assert read_cpu_milli(write_cpu(cores)) == cores


@many
@given(word=st.text(max_size=12) | st.from_regex(r"[0-9]{0,12} ?[A-Za-z]{0,4}[0-9]{0,4}m?"))
def test_any_word_is_an_amount_within_bounds_or_refused(word):
    for read in (read_memory_mib, read_cpu_milli, read_seconds):
        try:
            assert 1 <= read(word) <= MAX_AMOUNT
        except ValueError as refused:
            assert str(refused)
