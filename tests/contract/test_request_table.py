"""One table of request fields: every way of asking offers the same fields with the same defaults.

Schema, page, command line, YAML, #SBATCH and the reader are compared with the table and with each
other. A row that is added appears in all of them.
"""

from __future__ import annotations

import inspect
import shlex
from dataclasses import fields as attributes
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from django.utils.translation import gettext, override

from portal.api.jobs.submit_serializer import (
    DeviceRequestSerializer,
    JobSubmitRequestSerializer,
    RetriesRequestSerializer,
    submit_fields,
)
from portal.cli.as_command import as_command
from portal.cli.commands import submit as submit_module
from portal.cli.commands import submit_options
from portal.cli.sbatch import READERS, read_header
from portal.submission.limits import chosen_fields
from portal.web.request import form_fields, inputs
from portal.web.request.choices import choice_labels
from portal.web.request.form import (
    DEFAULTS,
    FilledForm,
    new_form_values,
    parse_form,
    values_from_request,
)
from portal.web.request.inputs import ADVANCED, PLACED, form_inputs
from portal.web.request.preview import FIELD_LABELS
from scheduler.core.placement.host_shares import HostNode, host_share
from scheduler.core.request import (
    JobRequest,
    RequestLimits,
    parse_request,
    request_as_dict,
    request_as_yaml,
)
from scheduler.core.request.choices import CHOICES, choices_of
from scheduler.core.request.reader import FIELD_NAMES, OWN_READERS
from scheduler.core.request_fields import FIELDS, SPELLINGS, FieldKind, top_names
from tests.support.every_field import EVERY_FIELD
from tests.support.host_nodes import BIG, SMALL
from tests.unit.cli.fake_rest import Rest, a_row

LIMITS = RequestLimits(
    default_time_limit_seconds=7_200,
    host_share=lambda device, **labels: host_share([BIG, SMALL], device, **labels),
)
LEAST = {
    "project": "vision",
    "name": "sum",
    "image": "pytorch:2.7",
    "command": ["python", "train.py"],
}
EVERYTHING = LEAST | EVERY_FIELD | {"after": ["J-1"]}
DEVICES = {
    "a whole GPU": {"gpus": 1},
    "four whole GPUs": {"gpus": 4},
    "MIG": {"mig": "2g.35gb"},
    "MPS": {"mps": {"threads": 25, "memory": "20GiB"}},
    "by memory": {"memory": "24GiB"},
    "by memory, any isolation": {"memory": "24GiB", "isolation": "any"},
    "of a model": {"gpus": 2, "models": ["H200"]},
}
every_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)


def rest_request(device: dict) -> JobRequest:
    return parse_request(LEAST | {"device": device}, LIMITS)


def form_request(device: dict) -> JobRequest:
    """As a fresh form sends it, with the device's inputs filled in and nothing else."""
    typed = values_from_request(LEAST | {"device": device}, "vision")
    untouched = new_form_values("vision")
    assert all(typed[name] == untouched[name] for name in ("cpu", "memory", "shm", "time_limit"))
    form = parse_form(typed, LIMITS)
    assert form.request is not None, form.errors
    return form.request


def cli_request(*words: str) -> JobRequest:
    rest = Rest().on("POST", "jobs", a_row())
    done = rest.run("submit", "--project", "vision", "--image", "pytorch:2.7", *words)
    assert done.exit_code == 0, done.stderr
    return parse_request(rest.body("POST", "jobs"), LIMITS)


def device_words(device: dict) -> list[str]:
    """The device's flags alone, out of the written command."""
    words = shlex.split(as_command(LEAST | {"device": device}))
    return words[words.index("pytorch:2.7") + 1 : words.index("--")]


# The same fields


def test_schema_reader_and_stored_form_have_the_fields_of_the_table():
    assert set(JobSubmitRequestSerializer().fields) == set(top_names()) == FIELD_NAMES
    nested = {"device": DeviceRequestSerializer, "retries": RetriesRequestSerializer}
    for top, serializer in nested.items():
        assert set(serializer().fields) == {field.part for field in FIELDS if field.top == top}
    assert {"grace", "processes"} <= set(JobSubmitRequestSerializer().fields)
    written = request_as_dict(parse_request(EVERYTHING, LIMITS))
    assert set(written) == set(top_names())
    assert list(yaml.safe_load(request_as_yaml(parse_request(EVERYTHING, LIMITS)))) == list(written)


def test_every_attribute_of_a_request_is_read_by_one_row():
    read = [field.attribute for field in FIELDS if field.attribute]
    own = {"device", "max_replicas", "begin_at", "begin_in", "limit_is_chosen"}
    assert len(read) == len(set(read))
    assert {each.name for each in attributes(JobRequest)} == set(read) | own
    assert set(OWN_READERS) <= {field.name for field in FIELDS}


def test_the_page_has_an_input_a_label_and_a_default_for_every_field():
    names = {field.form_name for field in FIELDS}
    assert names <= set(DEFAULTS) and names <= set(FIELD_LABELS)
    shown = {field.form_name for field in ADVANCED}
    assert shown | PLACED >= names and not shown & PLACED
    page = (
        "".join(path.read_text() for path in Path("templates/web").rglob("request*/*.html"))
        + Path("templates/web/request.html").read_text()
    )
    for name in PLACED:
        assert f'name="{name}"' in page, name


def test_the_command_line_has_a_flag_for_every_field_but_the_command():
    flagged = {field.name for field in FIELDS if field.flags}
    assert {field.name for field in FIELDS} - flagged == {"command"}
    options = inspect.signature(submit_module.submit).parameters
    assert {field.option for field in FIELDS if field.flags} <= set(options)
    every = [flag for field in FIELDS for flag in field.flags]
    assert len(every) == len(set(every))


def test_sbatch_reads_the_directives_of_the_table_and_no_others():
    assert set(READERS) == {each for field in FIELDS for each in field.directives}
    header = "#SBATCH --gres=gpu:1 --mem=4G --time=90 --nodes=2 -c 3\n"
    assert read_header(header).fields == {
        "device": {"gpus": 1},
        "memory": "4GiB",
        "time_limit": "5400s",
        "replicas": 2,
        "cpu": 3,
    }


def test_choices_are_the_words_of_the_code_and_have_labels():
    for field in FIELDS:
        if field.choices:
            assert field.choices == choices_of(field), field.name
        if field.kind is FieldKind.CHOICE:
            assert [word for word, _ in choice_labels(field)] == list(choices_of(field))
            assert field.default in choices_of(field)
    assert set(CHOICES) == {field.name for field in FIELDS if field.kind is FieldKind.CHOICE}


def test_labels_and_help_have_chinese():
    with override("zh-hans"):
        for field in FIELDS:
            for text in (field.label, field.help):
                assert gettext(text) != text, text


# The same defaults


@every_device
def test_page_rest_yaml_and_command_line_make_the_same_job(device):
    expected = rest_request(device)
    assert form_request(device) == expected
    file = yaml.safe_dump(LEAST | {"device": device})
    assert parse_request(yaml.safe_load(file), LIMITS) == expected
    flags = device_words(device)
    assert cli_request("--name", "sum", *flags, "--", "python", "train.py") == expected
    assert not expected.limit_is_chosen and not form_request(device).limit_is_chosen


GRES = [("gpu:1", {"gpus": 1}), ("gpu:2g.35gb:1", {"mig": "2g.35gb"})]


@pytest.mark.parametrize(("gres", "device"), GRES)
def test_a_slurm_script_gets_the_defaults_of_its_device(gres, device, tmp_path):
    script = tmp_path / "sum.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --gres={gres}\ntrue\n")
    read = cli_request(str(script))
    assert replace(read, command=("python", "train.py")) == rest_request(device)


@every_device
def test_host_amounts_are_the_share_of_the_smallest_such_node(device):
    request = rest_request(device)
    share = host_share([BIG, SMALL], request.device)
    assert (request.cpu_milli, request.memory_mib) == (share.cpu_milli, share.memory_mib)
    assert request.shm_mib == request.memory_mib // 2


@every_device
def test_a_written_job_comes_back_from_every_face(device):
    request = rest_request(device)
    stored = request_as_dict(request)
    assert parse_request(yaml.safe_load(request_as_yaml(request)), LIMITS) == request
    words = shlex.split(as_command(stored))
    assert cli_request(*words[2:]) == request
    form = parse_form(values_from_request(stored, "vision"), LIMITS)
    assert form.request == request, form.errors


@every_device
def test_amounts_that_nobody_chose_follow_a_changed_device(device):
    stored = request_as_dict(rest_request(device))
    chosen = chosen_fields(stored, LIMITS)
    assert not {"cpu", "memory", "shm", "processes"} & set(chosen)
    assert "memory" in chosen_fields(stored | {"memory": "7GiB"}, LIMITS)


@pytest.mark.parametrize(
    "more",
    [{}, {"device": {"gpus": 2, "isolation": "any"}, "begin_at": "+2h", "processes": 2}],
    ids=["as it is", "in other words"],
)
def test_every_field_comes_back_from_the_command(more):
    request = parse_request(EVERYTHING | more, LIMITS)
    written = request_as_dict(request)
    assert set(written) == set(top_names()), "this test asks for every field"
    assert cli_request(*shlex.split(as_command(written))[2:]) == request


# A new field is a row


def test_a_row_that_is_added_appears_on_every_face(monkeypatch):
    row = replace(
        next(field for field in FIELDS if field.name == "grace"),
        name="cool_down",
        label="Cool down",
        help="How long the GPU rests.",
        default="10s",
        flags=("--cool-down",),
        spellings=(),
        directives=("--cool-down",),
    )
    table = (*FIELDS, row)
    assert "cool_down" in submit_fields(table)
    parameter = submit_options._parameter(row)
    assert (parameter.name, parameter.default) == ("cool_down", "")
    monkeypatch.setattr(submit_options, "OPTIONS", [*submit_options.OPTIONS, row])
    options = dict.fromkeys((field.option for field in submit_options.OPTIONS), None)
    assert submit_options.request_fields(options | {"cool_down": "5m"}, {}) == {"cool_down": "5m"}
    monkeypatch.setattr("portal.cli.as_command.FIELDS", table)
    assert "--cool-down 5m" in as_command(LEAST | {"device": {"gpus": 1}, "cool_down": "5m"})
    assert "--cool-down" not in as_command(LEAST | {"device": {"gpus": 1}, "cool_down": "10s"})
    monkeypatch.setattr(form_fields, "FIELDS", table)
    values = DEFAULTS | {"cool_down": " 5m ", "project": "p"}
    assert form_fields.parse_fields(values, {}, {})["cool_down"] == "5m"
    assert form_fields.field_values({"cool_down": "5m"}) == {"cool_down": "5m"}
    (shown,) = form_inputs([row], FilledForm(values), LIMITS)
    assert (shown.label, shown.value) == ("Cool down", " 5m ")
    assert shown.help == "How long the GPU rests. Empty: 10s."
    assert row.group in inputs.GROUPS and row.form_name not in PLACED


# Spellings


def test_the_names_of_answers_are_no_second_field_of_the_schema():
    assert not set(SPELLINGS) & set(JobSubmitRequestSerializer().fields)
    for spelling, field in SPELLINGS.items():
        body = LEAST | {"device": {"gpus": 1}, spelling: 3_600}
        read = parse_request(body, LIMITS)
        assert getattr(read, field.attribute) == 3_600


def test_a_node_of_one_gpu_gives_all_of_itself():
    limits = RequestLimits(
        host_share=lambda device, **labels: host_share(
            [HostNode(16_000, 65_536, BIG.boards[:1])], device, **labels
        )
    )
    read = parse_request(LEAST | {"device": {"gpus": 1}}, limits)
    assert (read.cpu_milli, read.memory_mib, read.shm_mib) == (16_000, 65_536, 32_768)
