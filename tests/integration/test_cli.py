"""The `tessera` command against the real REST, with real tokens, in this process."""

from __future__ import annotations

import html
import json
import shlex
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from portal.accounts.models import Project, Role, TokenScope, User
from portal.allocations.models import Allocation
from portal.jobs.models import Job, Replica
from portal.quotas.models import Quota
from scheduler.core.model.states import JobStatus
from tests.support.cli_runner import Person
from tests.support.logs import write_log
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga() -> User:
    cache.clear()
    return a_user("olga")


@pytest.fixture
def node() -> HonestNode:
    return a_node("n1")


@pytest.fixture
def project(olga: User, node: HonestNode) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def cli(olga: User, project: Project, tmp_path: Path) -> Person:
    return Person(olga, tmp_path)


@pytest.fixture
def admin(project: Project, tmp_path: Path) -> Person:
    root = a_user("root", is_superuser=True)
    return Person(root, tmp_path, TokenScope.ADMIN)


SUBMIT = ("submit", "--image", "tessera-example:latest", "--mig", "2g.35gb", "--time", "1h")


def test_submit_makes_the_job_that_the_flags_say(cli: Person):
    done = cli(*SUBMIT, "-e", "A=1", "--cpu", "2", "--mem", "2G", "--", "python", "x.py")
    assert done.exit_code == 0, done.stderr
    job = Job.objects.get()
    assert done.stdout == f"{job.label}\n"
    assert (job.project.slug, job.owner.username, job.name) == ("vision", "olga", "x")
    assert (job.cpu_milli, job.memory_mib, job.time_limit_seconds) == (2_000, 2_048, 3_600)
    assert job.request["env"] == {"A": "1"} and job.request["device"] == {"mig": "2g.35gb"}


def test_every_flag_of_submit_is_a_field_that_rest_reads(cli: Person):
    first = cli(*SUBMIT, "--", "true").stdout.strip()
    words = (
        *("submit", "--image", "tessera-example:latest", "--gpu-memory", "30G"),
        *("--model", "H200", "--isolation", "hardware", "--name", "all", "--kind", "batch"),
        *("--nodes", "1", "--launcher", "torchrun", "--processes", "2", "--shm", "1G"),
        *("--cpu", "1", "--mem", "1G", "--topology", "any", "--time", "30m"),
        *("--priority", "low", "--preemptible", "--begin", "+2h", "--after", first),
        *("--needs", "nvme", "--tolerates", "x=y", "--dry-run", "-o", "json", "--", "true"),
    )
    done = cli(*words)
    assert done.stdout, done.stderr
    asked = json.loads(done.stdout)["request"]
    assert asked["device"] == {"memory": "30GiB", "models": ["H200"]}
    assert (asked["processes"], asked["time_limit"], asked["after"]) == (2, "30m", [first])
    assert (asked["needs"], asked["tolerates"], asked["begin_at"]) == (["nvme"], ["x=y"], "+2h")


def test_the_same_key_is_one_job(cli: Person):
    names = {cli(*SUBMIT, "--key", "once", "--", "true").stdout for _ in range(2)}
    assert len(names) == 1 and Job.objects.count() == 1
    assert cli(*SUBMIT, "--key", "once", "--", "false").exit_code == 5


def test_the_yaml_of_a_job_submits_again(cli: Person, olga: User, project: Project, tmp_path: Path):
    job = a_job(olga, project)
    request = yaml.safe_load(cli("show", job.label, "-o", "yaml").stdout)["request"]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(request))
    assert cli("submit", "-f", str(tmp_path / "again.yaml")).exit_code == 0
    assert Job.objects.latest("pk").request == job.request


def test_a_slurm_script_becomes_a_job(cli: Person, tmp_path: Path):
    script = tmp_path / "train.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH -J train --gres=gpu:1 --time=0:30:00 --mem=1G -c 2\n"
        "#SBATCH --partition=gpu\necho $1\n"
    )
    done = cli("submit", "--image", "tessera-example:latest", str(script), "hello")
    assert done.exit_code == 0, done.stderr
    job = Job.objects.get()
    assert (job.name, job.time_limit_seconds, job.memory_mib) == ("train", 1_800, 1_024)
    assert job.request["command"][-1] == "hello" and "--partition gpu" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--mig", "9g.1gb", "--", "true"), 1, "9g.1gb"),
        (("--time", "soon", "--", "true"), 2, "time_limit"),
        (("--project", "speech", "--", "true"), 2, "project_unknown"),
        ((), 2, "command"),
    ],
)
def test_what_rest_refuses_ends_with_its_code(cli: Person, words: tuple, code: int, told: str):
    done = cli(*SUBMIT, *words)
    assert (done.exit_code, done.stdout) == (code, "") and told in done.stderr
    assert "Next: " in done.stderr or code == 2
    assert not Job.objects.exists()


def test_a_dry_run_creates_nothing(cli: Person):
    done = cli(*SUBMIT, "--dry-run", "--", "true")
    assert done.exit_code == 0 and "MIG 2g.35gb" in done.stdout
    assert not Job.objects.exists()


def test_wait_follows_to_the_end_and_takes_the_jobs_own_code(cli: Person, node: HonestNode):
    def happens(seconds: float) -> None:
        settle(node, rounds=2)
        if Job.objects.get().status == JobStatus.RUNNING:
            node.finish(exit_code=3)

    cli.passes = happens  # type: ignore[method-assign]
    done = cli(*SUBMIT, "--wait", "--", "python", "x.py")
    assert done.exit_code == 3, done.stderr
    assert "queued" in done.stderr and "failed" in done.stderr
    assert done.stdout == f"{Job.objects.get().label}\n"


def test_lists_are_of_ones_own_unless_asked(cli: Person, olga: User, project: Project):
    mine, vera = a_job(olga, project), a_user("vera")
    project.memberships.create(user=vera, role=Role.MEMBER)
    theirs = a_job(vera, project)
    assert cli("ps", "-o", "name").stdout == f"{mine.label}\n"
    assert cli("ps", "-A", "-o", "name").stdout == f"{theirs.label}\n{mine.label}\n"
    assert cli("cancel", mine.label).exit_code == 0
    assert cli("ps", "-o", "name").stdout == ""
    assert cli("ps", "-a", "-o", "name").stdout == f"{mine.label}\n"
    assert cli("cancel", theirs.label).exit_code == 4
    assert cli("ps", "--state", "nonsense").exit_code == 2


def test_a_foreign_job_is_as_unknown_as_none(cli: Person):
    stranger = a_user("ott")
    theirs = a_job(stranger, a_project("speech", stranger), name="secret")
    for label in (theirs.label, "J-999999", "../tokens"):
        for command in ("show", "why", "events", "logs", "cancel", "retry", "release"):
            done = cli(command, label)
            assert done.exit_code == 3 and "secret" not in done.output, (command, label)


def test_a_waiting_job_tells_why(cli: Person, olga: User, project: Project, node: HonestNode):
    jobs = [a_job(olga, project, device={"gpus": 1}) for _ in range(2)]
    settle(node)
    done = cli("why", jobs[1].label)
    told = Job.objects.get(pk=jobs[1].pk).reason
    assert told["sentence"] in done.stdout and told["code"] in done.stdout


def test_a_running_job_is_shown_logged_and_extended(
    cli: Person, olga: User, project: Project, node: HonestNode
):
    job = a_job(olga, project)
    settle(node)
    replica = Replica.objects.get()
    text = b"one\ntwo\nthree\n"
    write_log(replica, 0, text)
    Replica.objects.filter(pk=replica.pk).update(log_bytes=len(text))
    assert "2g.35gb on GPU 0" in cli("show", job.label).stdout
    assert cli("logs", job.label, "--tail", "2").stdout == "two\nthree\n"
    assert "running" in cli("events", job.label, "-o", "wide").stdout
    before = Job.objects.get().deadline_at
    done = cli("extend", job.label, "30m")
    assert done.exit_code == 0, done.stderr
    assert Job.objects.get().deadline_at - before == timedelta(minutes=30)
    assert cli("extend", job.label, "whenever").exit_code == 2


def test_a_job_that_is_over_is_tried_again(cli: Person, olga: User, project: Project):
    job = a_job(olga, project)
    assert cli("retry", job.label).exit_code == 5
    cli("cancel", job.label)
    done = cli("retry", job.label)
    assert done.exit_code == 0, done.stderr
    assert Job.objects.latest("pk").label == done.stdout.strip() != job.label


def test_hold_and_release(cli: Person, olga: User, project: Project):
    job = a_job(olga, project)
    assert cli("hold", job.label, "--because", "data").exit_code == 0
    assert Job.objects.get().hold_reason == "data"
    assert cli("release", job.label).exit_code == 0
    assert not Job.objects.get().hold_owner


def test_info_offers_and_top_tell_what_is_free(
    cli: Person, olga: User, project: Project, node: HonestNode
):
    assert json.loads(cli("info", "-o", "json").stdout)[0]["free_gpus"] == 1
    a_job(olga, project)
    settle(node)
    (row,) = json.loads(cli("info", "-o", "json").stdout)
    assert row["free_gpus"] == 0 and "#" in row["picture"]
    offers = json.loads(cli("offers", "-o", "json").stdout)
    counts = {(o["kind"], o["profile"]): (o["free"], o["all"]) for o in offers}
    assert counts["gpu", ""] == counts["mps", ""] == (0, 1)
    assert counts["mig", "2g.35gb"] == (2, 3)
    assert "1 running" in cli("top", "--once").stdout


def test_usage_is_what_rest_counts(
    cli: Person, admin: Person, olga: User, project: Project, node: HonestNode
):
    a_job(olga, project)
    settle(node)
    now = timezone.now()
    Allocation.objects.update(bound_at=now - timedelta(hours=1))
    since = ("--from", (now - timedelta(days=2)).date().isoformat())
    told = json.loads(cli("usage", *since, "-o", "json").stdout)
    assert told["of"] == "me" and told["results"][0]["user"] == "olga"
    out = cli("usage", *since, "--project", "vision", "--by", "user").stdout.splitlines()
    assert out[0].split() == ["USER", "GPU-HOURS"] and out[1].split()[0] == "olga"
    assert cli("usage", "--project", "speech").exit_code == 3
    assert cli("usage", "--by", "colour").exit_code == 2
    assert cli("usage", "--all").exit_code == 3
    assert admin("usage", "--all").exit_code == 0


def test_quota_and_who_one_is(cli: Person):
    assert "vision" in cli("quota").stdout
    told = json.loads(cli("whoami", "-o", "json").stdout)
    assert told["token"]["name"] == "cli" and told["projects"] == ["vision"]
    assert told["user"] == "olga"


def test_signing_in_keeps_a_token_that_works(cli: Person):
    words = ("login", "http://testserver", "--token-stdin")
    assert cli(*words, input=f"{cli.token}\n").exit_code == 0
    assert yaml.safe_load((cli.home / "config.yaml").read_text())["token"] == cli.token
    assert (cli.home / "config.yaml").stat().st_mode & 0o777 == 0o600
    assert cli(*words, input="tsr_no\n").exit_code == 4


def test_a_narrow_token_is_told_what_it_lacks(olga: User, project: Project, tmp_path: Path):
    reader = Person(olga, tmp_path, TokenScope.READ)
    assert reader("ps").exit_code == 0
    done = reader(*SUBMIT, "--", "true")
    assert done.exit_code == 4 and "scope_missing" in done.stderr and "wider" in done.stderr


def test_an_admin_cordons_drains_and_takes_back(admin: Person, cli: Person, node: HonestNode):
    assert cli("admin", "node", "cordon", "n1", "-m", "x").exit_code == 4
    assert admin("admin", "node", "drain", "n1", "-m", "new driver", "--wait").exit_code == 0
    node.row.refresh_from_db()
    assert not node.row.schedulable and node.row.cordon_reason == "new driver"
    assert "cordoned" in admin("admin", "node", "list").stdout
    assert admin("admin", "node", "uncordon", "n1").exit_code == 0
    node.row.refresh_from_db()
    assert node.row.schedulable
    assert admin("admin", "node", "cordon", "n9", "-m", "x").exit_code == 3


def test_an_admin_sets_a_quota_from_the_version_that_was_read(admin: Person, project: Project):
    assert admin("admin", "quota", "set", "vision", "--gpus", "2.5").exit_code == 0
    assert Quota.objects.get(project=project, user=None, model="").limit_units == 140_000
    stale = admin("admin", "quota", "set", "vision", "--gpus", "9", "--version", "1")
    assert stale.exit_code == 5 and "2.5" in stale.stderr
    words = ("admin", "quota", "set", "vision", "--gpus", "1", "--user", "olga")
    assert admin(*words).exit_code == 0
    assert Quota.objects.get(user__username="olga").limit_units == 56_000


def test_an_admin_approves_and_refuses(admin: Person, olga: User, project: Project):
    jobs = [a_job(olga, project) for _ in range(2)]
    Job.objects.update(status=JobStatus.AWAITING_APPROVAL)
    assert len(admin("admin", "inbox", "-o", "name").stdout.split()) == 2
    assert admin("admin", "approve", jobs[0].label).exit_code == 0
    assert admin("admin", "refuse", jobs[1].label, "--because", "no").exit_code == 0
    assert Job.objects.get(pk=jobs[0].pk).status == JobStatus.QUEUED
    assert admin("admin", "approve", jobs[0].label).exit_code == 5


def test_a_request_of_the_page_and_of_the_command_are_one(cli: Person, project: Project):
    body = a_request(project, env={"A": "1"}, replicas=2)
    answer = cli("submit", "-f", "-", "--dry-run", "-o", "json", input=yaml.safe_dump(body))
    asked = json.loads(answer.stdout)["request"]
    assert asked["replicas"] == 2 and asked["command"] == body["command"]


def test_the_request_page_shows_the_command_that_asks_for_the_same(
    client: Client, cli: Person, olga: User
):
    client.force_login(olga)
    form = {
        **{"project": "vision", "name": "probe", "image": "tessera-example:latest"},
        **{"command": "python probe.py --lr '1e-4 '", "amount": "2g.35gb", "replicas": "2"},
        **{"topology": "best", "launcher": "none", "priority": "normal", "gpus": "1"},
        **{"time_limit": "30m", "cpu": "1", "memory": "1GiB", "env": "A=<b>", "key": "k"},
    }
    text = client.post("/request/preview", form).content.decode()
    block = text.partition('id="command-line"')[2].partition(">")[2].partition("</pre>")[0]
    assert "<b>" not in block
    words = shlex.split(html.unescape(block))
    assert words[:2] == ["tessera", "submit"]
    made = cli(*words[1:])
    assert made.exit_code == 0, made.stderr
    job = Job.objects.get()
    assert (job.request["device"], job.replica_count) == ({"mig": "2g.35gb"}, 2)
    assert job.request["command"] == ["python", "probe.py", "--lr", "1e-4 "]
    assert job.request["env"] == {"A": "<b>"}
