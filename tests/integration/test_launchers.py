"""Launchers as people meet them: one under another is refused with the mended request, and an agent
without a job's launcher does not get it."""

import json
import re
import shlex
from html import unescape

import pytest
from django.test import Client
from rest_framework.test import APIClient

from portal.jobs.models import Job
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.cli_runner import Person
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_request, settle

pytestmark = pytest.mark.django_db

NESTED = ["torchrun", "--nproc-per-node=2", "--nnodes", "1", "train.py", "--lr", "1e-4"]
MENDED = ["python", "train.py", "--lr", "1e-4"]


@pytest.fixture
def rest(olga):
    rest = APIClient()
    rest.force_authenticate(olga)
    return rest


@pytest.fixture
def page(olga):
    page = Client()
    page.force_login(olga)
    return page


def nested_request(team, **fields):
    whole = {"device": {"gpus": 2}, "launcher": "torchrun", "command": NESTED}
    return a_request(team, **whole | fields)


def error_of(answer):
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    return error


def test_rest_refuses_a_nested_launcher_and_its_suggestion_is_accepted(rest, team):
    a_node("n1", gpus=2)
    body = nested_request(team)
    error = error_of(rest.post("/api/v1/jobs", body, format="json"))
    assert (error["field"], error["code"]) == ("command", "invalid_combination")
    assert error["suggestion"] == {"command": MENDED, "launcher": "torchrun", "processes": 2}
    assert not Job.objects.exists()
    answer = rest.post("/api/v1/jobs", body | error["suggestion"], format="json")
    assert answer.status_code == 201
    assert Job.objects.get().request["command"] == MENDED


def test_rest_says_nothing_of_suggestions_where_there_is_none(rest, team):
    gang = nested_request(team, command=["srun", "./a.out"], replicas=2, device={"gpus": 1})
    assert "suggestion" not in error_of(rest.post("/api/v1/jobs", gang, format="json"))
    plain = nested_request(team, command=["python", "t.py"], name="")
    assert "suggestion" not in error_of(rest.post("/api/v1/jobs", plain, format="json"))


def test_without_a_launcher_torchrun_runs_as_the_user_wrote_it(rest, team):
    body = nested_request(team, launcher="none")
    assert rest.post("/api/v1/jobs", body, format="json").status_code == 201
    assert Job.objects.get().request["command"] == NESTED


def nested_form(**fields):
    whole = {"amount": "gpus", "gpus": "2", "launcher": "torchrun"}
    return a_form(command=shlex.join(NESTED), processes="", **whole) | fields


def suggestion_button(html):
    (value,) = re.findall(r'name="alternative" value="([^"]*)"', html)
    return unescape(value)


@pytest.mark.parametrize("address", ["/request/", "/request/preview"])
def test_the_page_offers_the_mended_request_as_a_button(page, team, address):
    a_node("n1", gpus=2)
    answer = page.post(address, nested_form())
    html = answer.content.decode()
    assert "launcher torchrun would start that in every process" in unescape(html)
    assert "python train.py --lr 1e-4 under launcher torchrun" in html
    assert not Job.objects.exists()
    changes = suggestion_button(html)
    mended = page.post("/request/", nested_form(alternative=changes))
    assert mended.status_code == 200 and not Job.objects.exists(), "it only fills in the form"
    shown = unescape(mended.content.decode())
    assert 'value="2"' in shown and shlex.join(MENDED) in shown
    assert "would start that in every process" not in shown
    command, processes = shlex.join(MENDED), str(json.loads(changes)["processes"])
    submitted = page.post("/request/", nested_form(command=command, processes=processes))
    assert submitted.status_code == 302
    assert Job.objects.get().request["command"] == MENDED


def test_the_page_has_it_in_chinese(page, team):
    html = unescape(
        page.post(
            "/request/preview", nested_form(), headers={"Accept-Language": "zh-hans"}
        ).content.decode()
    )
    assert "启动器 torchrun 会在每个进程中再启动它" in html
    assert "用启动器 torchrun 运行 python train.py --lr 1e-4" in html
    assert "It fills in" not in html


def test_a_button_that_was_tampered_with_changes_nothing(page, team):
    for changes in ({"image": "evil"}, {"command": "rm"}, {"command": [1]}, {"command": None}):
        html = page.post("/request/", nested_form(alternative=json.dumps(changes))).content.decode()
        assert not Job.objects.exists() and "evil" not in html


@pytest.mark.parametrize(
    "changes",
    [
        *("", "null", "{", "[" * 60_000, '{"image": "evil"}', '{"device": {}}'),
        '{"device": {"mps": {"threads": 25, "memory": 8}}}',
    ],
    ids=range(7),
)
def test_a_button_of_another_version_submits_nothing(page, team, changes):
    a_node("n1")
    answer = page.post("/request/", a_form(alternative=changes))
    assert answer.status_code == 200 and not Job.objects.exists()
    assert "evil" not in answer.content.decode()


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_the_command_line_prints_the_mended_command_and_it_submits(olga, team, tmp_path, more):
    a_node("n1", gpus=2)
    cli = Person(olga, tmp_path)
    words = ("submit", "--image", "tessera-example:latest", "--gpus", "2", "--time", "1h")
    options = ("--launcher", "torchrun", "-e", "A=b c", *more)
    done = cli(*words, *options, "--", *NESTED)
    assert done.exit_code == 2 and not Job.objects.exists()
    assert "would start that in every process" in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("  Next: ")]
    tessera, *mended = shlex.split(line.removeprefix("  Next: "))
    assert tessera == "tessera" and mended[-len(MENDED) :] == MENDED
    assert cli(*mended).exit_code == 0
    job = Job.objects.get()
    assert (job.request["command"], job.request["processes"]) == (MENDED, 2)
    assert job.request["env"] == {"A": "b c"}


def test_the_mended_command_does_not_print_what_this_shell_passes_on(olga, team, tmp_path):
    a_node("n1", gpus=2)
    cli = Person(olga, tmp_path, variables={"WANDB_API_KEY": "hush"})
    words = ("submit", "--image", "tessera-example:latest", "--gpus", "2", "--time", "1h")
    options = ("--launcher", "torchrun", "-e", "WANDB_API_KEY", "-e", "A=1")
    done = cli(*words, *options, "--", *NESTED)
    assert "hush" not in done.stderr + done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("  Next: ")]
    assert "--env WANDB_API_KEY --env A=1" in line
    _, *mended = shlex.split(line.removeprefix("  Next: "))
    assert cli(*mended).exit_code == 0
    assert Job.objects.get().request["env"] == {"WANDB_API_KEY": "hush", "A": "1"}


@pytest.mark.parametrize(
    "more",
    [{"env": ["A=1"]}, {"memory_mib": 4_096}, {"retries": 3}],
    ids=["another error", "a spelling without a flag", "no object"],
)
def test_no_command_is_printed_that_would_not_mend_the_whole_request(olga, team, tmp_path, more):
    a_node("n1", gpus=2)
    body = nested_request(team) | more
    if "memory_mib" in more:
        del body["memory"]
    file = tmp_path / "request.yaml"
    file.write_text(json.dumps(body))
    done = Person(olga, tmp_path)("submit", "--file", str(file))
    assert done.exit_code == 2 and not Job.objects.exists()
    assert "would start that in every process" in done.stderr
    assert "Next: tessera submit --" not in done.stderr


def test_a_stored_request_of_before_the_rule_waits_with_its_sentence(olga, team):
    """Its node would refuse it. The rules do not change what is running (test_combinations.py)."""
    node = a_node("n1", gpus=2)
    job = a_job(olga, team, device={"gpus": 2}, launcher="torchrun", command=MENDED)
    Job.objects.filter(pk=job.pk).update(request=job.request | {"command": NESTED})
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert job.reason["evidence"] == {"combination": "launcher_in_command"}
    assert "would start that in every process" in job.reason["sentence"]


def an_old_node():
    node = a_node("n1", gpus=2)
    node.launchers, node.agent_version = ("none",), "0.0.9"
    node.report()
    return node


def test_a_job_waits_for_an_agent_with_its_launcher_and_says_so(olga, team, rest, page):
    node = an_old_node()
    job = a_job(olga, team, device={"gpus": 1}, launcher="torchrun")
    plan_once()
    reason = rest.get(f"/api/v1/jobs/{job.label}").json()["reason"]
    assert reason["code"] == ReasonCode.NODE_UNAVAILABLE
    assert "The agent of n1 (version 0.0.9) has no launcher torchrun" in reason["sentence"]
    assert reason["unblocks"].endswith("a version with launcher torchrun")
    address = f"/jobs/{job.label}/"
    english = unescape(page.get(address).content.decode())
    assert "The agent of n1 (version 0.0.9) has no launcher torchrun" in english
    chinese = page.get(address, headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "n1 的代理程序（版本 0.0.9）没有启动器 torchrun" in unescape(chinese)
    node.launchers = ("none", "torchrun", "mpirun")
    node.report()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_other_jobs_go_on_beside_one_that_no_agent_can_launch(olga, team):
    node = an_old_node()
    first = a_job(olga, team, device={"gpus": 1}, launcher="torchrun")
    second = a_job(olga, team, device={"gpus": 1})
    settle(node)
    assert {j.pk: j.status for j in Job.objects.all()} == {
        first.pk: JobStatus.QUEUED,
        second.pk: JobStatus.RUNNING,
    }


def test_an_image_runs_its_own_program_without_a_command_from_wherever_it_is_asked_for(
    olga, team, rest, page, tmp_path
):
    node = a_node("n1", gpus=4)
    node.launchers = ("none", "entrypoint")
    node.report()
    body = a_request(team, launcher="entrypoint")
    del body["command"]
    assert rest.post("/api/v1/jobs", body, format="json").status_code == 201
    form = a_form(command="", launcher="entrypoint")
    assert "tessera submit" in page.post("/request/preview", form).content.decode()
    assert page.post("/request/", form).status_code == 302
    words = ("submit", "--image", "quay.io/own/server:1", "--launcher", "entrypoint", "--gpus", "1")
    assert Person(olga, tmp_path)(*words).exit_code == 0
    jobs = Job.objects.order_by("pk")
    assert [job.request["command"] for job in jobs] == [[]] * 3
    assert jobs[2].name == "server"
    shown = unescape(page.get(f"/jobs/{jobs[0].label}/").content.decode())
    assert "The image's own program" in shown
    settle(node)
    assert {replica.command for replica in node.desired.replicas} == {()}
    # No other launcher has a program then.
    error = error_of(rest.post("/api/v1/jobs", body | {"launcher": "none"}, format="json"))
    assert (error["field"], error["code"]) == ("command", "missing")
