"""A notebook says as little as that it is one; what it cannot be is refused with what mends it."""

import pytest

from scheduler.core.request import (
    InvalidRequest,
    JobKind,
    RequestLimits,
    parse_request,
    parse_stored_request,
    request_as_dict,
)

LIMITS = RequestLimits()
LEAST = {"project": "p", "name": "n", "image": "i", "device": {"mig": "1g.18gb"}}


def read(**fields):
    return parse_request(LEAST | fields, LIMITS)


def problem(**fields):
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    (error,) = refused.value.errors
    return error


def test_the_word_notebook_is_enough_for_a_jupyterlab_that_can_be_opened():
    request = read(kind="notebook")
    assert (request.launcher, request.command) == ("jupyter", ("jupyter", "lab"))
    assert request.apps == ("lab:8888",)
    stored = request_as_dict(request)
    assert parse_stored_request(stored) == request
    assert parse_request(stored, LIMITS) == request


@pytest.mark.parametrize(
    ("launcher", "app"), [("jupyter", "lab:8888"), ("code-server", "code:8080")]
)
def test_a_launcher_of_notebooks_makes_a_notebook(launcher, app):
    request = read(launcher=launcher)
    assert (request.kind, request.apps) == (JobKind.NOTEBOOK, (app,))


@pytest.mark.parametrize(
    ("command", "apps", "expected"),
    [
        (["jupyter", "lab", "--port", "9001"], [], ("lab:9001",)),
        (["jupyter", "lab", "--ServerApp.port=9001"], [], ("lab:9001",)),
        (["jupyter", "lab", "--port", "99999"], [], ("lab:8888",)),
        ([], ["tensorboard:6006"], ("lab:8888", "tensorboard:6006")),
        ([], ["mine:8888"], ("mine:8888",)),
        ([], ["a:1", "b:2", "c:3", "d:4"], ("a:1", "b:2", "c:3", "d:4")),
    ],
)
def test_its_app_is_declared_beside_those_of_the_request(command, apps, expected):
    request = read(launcher="jupyter", command=command, apps=apps)
    assert request.apps == expected


def test_a_notebook_of_ones_own_program_stays_as_it_is():
    own = {"kind": "notebook", "command": ["marimo", "edit"], "apps": ["marimo:2718"]}
    request = read(**own)
    assert (request.launcher, request.command) == ("none", ("marimo", "edit"))
    assert request.apps == ("marimo:2718",)


@pytest.mark.parametrize("replicas", [2, {"min": 1, "max": 4}])
def test_it_runs_in_one_replica(replicas):
    error = problem(kind="notebook", command=["marimo", "edit"], replicas=replicas)
    assert (error.field, error.suggestion) == ("replicas", {"replicas": 1})


@pytest.mark.parametrize("field", [{"array": "0-3"}, {"sweep": ["lr=1,2"]}])
def test_it_is_one_job(field):
    assert problem(kind="notebook", command=["marimo", "edit"], **field).field in field


def test_without_a_password_it_is_a_notebook_or_nothing():
    error = problem(kind="batch", launcher="jupyter")
    assert (error.field, error.suggestion) == ("kind", {"kind": "notebook"})
    assert read(launcher="jupyter", **error.suggestion).kind is JobKind.NOTEBOOK


@pytest.mark.parametrize(
    "option",
    [
        *("--ip=0.0.0.0", "--ServerApp.ip=0.0.0.0", "--ServerApp.token=x"),
        *("--IdentityProvider.token=x", "--ServerApp.base_url=/x", "--ServerApp.port_retries=9"),
    ],
)
def test_where_it_listens_and_whom_it_lets_in_is_not_the_commands(option):
    error = problem(launcher="jupyter", command=["jupyter", "lab", option, "--LabApp.dev_mode=1"])
    assert error.field == "command"
    assert error.suggestion == {"command": ["jupyter", "lab", "--LabApp.dev_mode=1"]}
    assert option.partition("=")[0].replace("_", "-") in error.sentence


def test_another_program_is_refused_with_the_servers_command():
    error = problem(launcher="code-server", command=["python", "train.py"])
    assert error.suggestion == {"command": ["code-server", "."]}


@pytest.mark.parametrize(
    "fields",
    [
        {"launcher": ["jupyter"]},
        {"launcher": "jupyter", "command": "jupyter lab"},
        {"launcher": "jupyter", "command": [1]},
        {"launcher": "jupyter", "apps": None},
        {"launcher": "jupyter", "apps": [8888]},
        {"kind": ["notebook"], "command": ["c"]},
        {"kind": None, "launcher": "jupyter"},
    ],
)
def test_what_cannot_be_read_is_refused_at_its_field(fields):
    with pytest.raises(InvalidRequest):
        read(**fields)
