"""A job's page by its parts: each has an address, shows what there is and nothing that is not."""

import html
import json
import re
import shlex
from datetime import timedelta

import pytest
import typer
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.telemetry import GpuSample, MissingReason, MissingValue, SliceSample
from portal.allocations.models import Allocation, AllocationSample
from portal.cli.main import app
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job, Replica
from portal.telemetry.job_samples import samples_record
from portal.web.job.context import TABS
from scheduler.core.request import parse_request, request_as_dict
from tests.support.logs import write_log
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
NBSP = "\N{NO-BREAK SPACE}"


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(path, **fields):
        answer = client.get(path, fields)
        assert answer.status_code == 200, (path, answer.status_code)
        return answer.content.decode()

    return get


def start(olga, team, node, **fields) -> Job:
    job = a_job(olga, team, **fields)
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def write(job: Job, text: str, rank: int = 0) -> None:
    replica = Replica.objects.get(attempt__job=job, rank=rank)
    write_log(replica, replica.log_bytes, text.encode())
    size = replica.log_bytes + len(text.encode())
    Replica.objects.filter(pk=replica.pk).update(log_bytes=size)


def shown(text: str) -> list[str]:
    return re.findall(r"<span>r\d</span><span>([^<]*)", text)


# Tabs


@pytest.mark.parametrize("tab", TABS)
def test_each_part_has_its_own_address_and_says_that_it_is_the_current_one(
    page, olga, team, node, tab
):
    job = start(olga, team, node)
    text = page(f"/jobs/{job.label}/{tab}")
    tabs = re.search(r'<nav class="tabs".*?</nav>', text, re.S)[0]
    current = re.findall(r'href="([^"]+)" aria-current="page"', tabs)
    assert current == [f"/jobs/{job.label}/{tab}"]
    assert text.count("<h1") == 1
    assert "style=" not in text


def test_the_job_itself_shows_its_log_and_old_addresses_lead_on(page, client, olga, team, node):
    job = start(olga, team, node)
    assert 'data-log="live"' in page(f"/jobs/{job.label}/")
    answer = client.get(f"/jobs/{job.label}/?tab=events")
    assert answer.headers["Location"] == f"/jobs/{job.label}/events"


def test_events_are_counted_on_their_tab(page, olga, team, node):
    job = start(olga, team, node)
    count = job.events.count()
    assert f'data-part="event-count">{count}<' in page(f"/jobs/{job.label}/spec")


@pytest.mark.parametrize("tab", TABS)
def test_a_part_of_a_foreign_job_looks_like_none(client, olga, team, node, tab):
    job = start(olga, team, node)
    client.force_login(a_user("eve"))
    for label in (job.label, "J-999999", "x"):
        assert client.get(f"/jobs/{label}/{tab}").status_code == 404


@pytest.mark.parametrize("tab", TABS)
def test_a_part_costs_the_same_queries_however_many_replicas_a_gang_has(
    page, olga, team, node, tab
):
    def count(job: Job) -> int:
        page(f"/jobs/{job.label}/{tab}")
        with CaptureQueriesContext(connection) as asked:
            page(f"/jobs/{job.label}/{tab}")
        return len(asked)

    few = count(start(olga, team, node, device={"mig": "1g.18gb"}, replicas=2))
    many = count(start(olga, team, node, device={"mig": "1g.18gb"}, replicas=5))
    assert many == few <= 20


# Logs


def test_the_last_thousand_lines_come_first_and_the_older_ones_are_pages(page, olga, team, node):
    job = start(olga, team, node)
    write(job, "".join(f"line {n}\n" for n in range(1, 2_501)))
    text = page(f"/jobs/{job.label}/logs")
    assert shown(text) == [f"line {n}" for n in range(1_501, 2_501)]
    assert "The last 1000 of 2500 lines" in text
    older = re.search(r'href="([^"]*line=501[^"]*)"', text)[1].replace("&amp;", "&")
    text = page(older)
    assert shown(text) == [f"line {n}" for n in range(501, 1_501)]
    assert re.search(r'href="[^"]*line=1501[^"]*"[^>]*>Newer', text)
    assert "data-log=" not in text


def test_a_search_shows_lines_with_their_numbers_and_keeps_what_was_typed(page, olga, team, node):
    job = start(olga, team, node)
    write(job, "ok\nERROR: <b>disk</b>\nok\nerror again\n")
    text = page(f"/jobs/{job.label}/logs", q="error")
    assert [line.replace("&lt;", "<").replace("&gt;", ">") for line in shown(text)] == [
        "ERROR: <b>disk</b>",
        "error again",
    ]
    assert re.findall(r'class="no"><a [^>]+>(\d+)<', text) == ["2", "4"]
    assert 'value="error"' in text
    nothing = page(f"/jobs/{job.label}/logs", q='"><script>x')
    assert "No line contains" in nothing
    assert "<script>x" not in nothing


@pytest.mark.parametrize(
    "fields",
    [
        {"rank": "x"},
        {"rank": "-1"},
        {"rank": "999"},
        {"line": "0"},
        {"line": "99999999"},
        {"line": "1e9"},
        {"attempt": "77"},
        {"on": "1-1", "q": "a"},
        {"q": "x" * 5_000},
        {"q": "\x00\x1b"},
        {"wrap": "?", "times": "?"},
    ],
)
def test_an_address_that_makes_no_sense_still_shows_a_page(page, olga, team, node, fields):
    job = start(olga, team, node)
    write(job, "one\n")
    page(f"/jobs/{job.label}/logs", **fields)


def test_each_replica_has_its_log_and_all_are_shown_together(page, olga, team, node):
    job = start(olga, team, node, replicas=2)
    write(job, "zero\n", 0)
    write(job, "one\n", 1)
    assert sorted(shown(page(f"/jobs/{job.label}/logs"))) == ["one", "zero"]
    assert shown(page(f"/jobs/{job.label}/logs", rank=1)) == ["one"]


def test_wrap_and_times_are_a_part_of_the_address(page, olga, team, node):
    job = start(olga, team, node)
    write(job, "one\n")
    text = page(f"/jobs/{job.label}/logs", wrap="0", times="0")
    assert 'class="log full unwrapped untimed"' in text
    assert 'class="log full"' in page(f"/jobs/{job.label}/logs")


def test_a_job_that_wrote_nothing_says_so(page, olga, team, node):
    job = start(olga, team, node)
    assert "No output yet" in page(f"/jobs/{job.label}/logs")


# Spec


def submitted_by(cli: str) -> dict:
    """What the command line would ask for, as its own parser reads it."""
    words = shlex.split(cli.replace("\\\n", " "))
    assert words[:2] == ["tessera", "submit"]
    command = typer.main.get_command(app).commands["submit"]
    return command.make_context("submit", words[2:]).params


def test_the_request_is_given_three_times_and_reads_back_the_same(page, olga, team, node):
    job = start(olga, team, node, command=["python", "it's.py", "--x=$HOME; rm"], env={"A": "b c"})
    text = page(f"/jobs/{job.label}/spec")
    code = dict(re.findall(r'<pre[^>]* id="(\w+)"[^>]*>(.*?)</pre>', text, re.S))
    given = {name: html.unescape(body) for name, body in code.items()}
    asked = request_as_dict(parse_request(job.request, LIMITS))
    assert json.loads(given["json"]) == asked
    assert request_as_dict(parse_request(yaml.safe_load(given["yaml"]), LIMITS)) == asked
    params = submitted_by(given["cli"])
    assert list(params["command"]) == ["python", "it's.py", "--x=$HOME; rm"]
    assert (params["project"], params["mig"], params["time"]) == ("vision", "2g.35gb", "1h")
    assert list(params["env"]) == ["A=b c"]
    assert text.count("data-copy=") == 3
    assert f"/request/?like={job.label}" in text


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"device": {"gpus": 1}}, "gpus", 1),
        ({"device": {"memory": "10GiB"}}, "gpu_memory", "10GiB"),
        ({"replicas": 2}, "nodes", "2"),
        ({"priority": "low"}, "priority", "low"),
    ],
)
def test_every_way_of_asking_is_a_command(page, olga, team, node, fields, name, value):
    job = a_job(olga, team, **fields)
    text = page(f"/jobs/{job.label}/spec")
    cli = re.search(r'id="cli"[^>]*>(.*?)</pre>', text, re.S)[1]
    assert submitted_by(cli)[name] == value


def test_retries_grace_and_backend_are_flags_too(page, olga, team, node):
    more = {"retries": {"infrastructure": 1, "user": 2}, "grace": "2m", "backend": "gloo"}
    job = a_job(olga, team, **more)
    cli = re.search(r'id="cli"[^>]*>(.*?)</pre>', page(f"/jobs/{job.label}/spec"), re.S)[1]
    fields = submitted_by(html.unescape(cli))
    assert (fields["retries"], fields["user_retries"]) == (1, 2)
    assert (fields["grace"], fields["backend"]) == ("2m", "gloo")


# Results


def test_results_say_how_each_replica_ended_and_what_failed_first(page, olga, team, node):
    job = start(olga, team, node, retries={"user": 0})
    write(job, "".join(f"line {n}\n" for n in range(1, 31)))
    node.finish(exit_code=137)
    settle(node)
    Replica.objects.update(memory_kill=True)
    text = page(f"/jobs/{job.label}/results")
    assert "Memory kill: its memory was not enough (exit 137)" in text
    assert '<td class="num">137</td>' in text
    assert "It was killed (SIGKILL), most likely because host memory ran out" in text
    assert text.count("<span>line 30</span>") == 2  # in the failure at the head and in the results
    assert "<span>line 10</span>" not in text
    assert "GPU-hours used" in text


def test_a_job_that_has_not_started_has_no_result_and_no_numbers(page, olga, team, node):
    start(olga, team, node, device={"gpus": 2})
    job = a_job(olga, team, device={"gpus": 2})
    assert "it has no result yet" in page(f"/jobs/{job.label}/results")
    assert "No measurements yet" in page(f"/jobs/{job.label}/metrics")


# Metrics


def sampled(node, minute, **fields) -> None:
    row = Node.objects.get(pk=node.row.pk)
    found = {g.uuid: GpuSample(uuid=g.uuid, **fields) for g in Gpu.objects.filter(node=row)}
    samples_record(row, found, minute)


@pytest.fixture
def noon():
    return timezone.now().replace(second=0, microsecond=0) - timedelta(hours=1)


def test_the_highest_of_each_minute_is_kept_and_drawn_with_its_words(page, olga, team, node, noon):
    job = start(olga, team, node, device={"gpus": 1})
    for seconds, percent in ((0, 40), (5, 90), (30, 10), (60, 20), (120, 35)):
        sampled(
            node,
            noon + timedelta(seconds=seconds),
            utilization_percent=percent,
            memory_used_mib=1024 * percent,
            memory_total_mib=1024 * 141,
        )
    rows = AllocationSample.objects.order_by("minute")
    assert [row.active_percent for row in rows] == [90, 20, 35]
    text = page(f"/jobs/{job.label}/metrics")
    assert f"peak 90{NBSP}%, last 35{NBSP}%" in text
    assert f"peak 90.0{NBSP}GiB, last 35.0{NBSP}GiB" in text
    assert text.count("<polyline") == 2
    assert "Temperature" not in text


def test_what_cannot_be_measured_is_said_and_never_drawn_as_nothing(page, olga, team, node, noon):
    job = start(olga, team, node, device={"gpus": 1})
    missing = (MissingValue("utilization_percent", MissingReason.NO_PERMISSION),)
    sampled(node, noon, missing=missing, memory_used_mib=1024, memory_total_mib=2048)
    text = page(f"/jobs/{job.label}/metrics")
    assert "not measurable: the driver denies access" in text
    assert f"0{NBSP}%" not in text.replace(f"100{NBSP}%", "")


def test_a_slice_is_measured_by_itself(page, olga, team, node, noon):
    job = start(olga, team, node)
    held = Allocation.objects.get().slice
    row = Node.objects.get(pk=node.row.pk)
    piece = SliceSample(
        held.device_uuid, 1, held.profile, memory_used_mib=2048, memory_total_mib=35840
    )
    other = SliceSample("MIG-other", 2, "1g.18gb", memory_used_mib=9999, memory_total_mib=18432)
    whole = GpuSample(uuid=held.gpu.uuid, memory_used_mib=77_777, slices=(other, piece))
    samples_record(row, {held.gpu.uuid: whole}, noon)
    assert AllocationSample.objects.get().memory_used_mib == 2048
    assert f"peak 2.0{NBSP}GiB" in page(f"/jobs/{job.label}/metrics")


def test_an_mps_share_never_shows_what_the_whole_gpu_does(page, olga, team, node, noon):
    share = {"mps": {"threads": 25, "memory": "8GiB"}, "isolation": "any"}
    job = start(olga, team, node, device=share)
    sampled(node, noon, utilization_percent=99, memory_used_mib=9999)
    row = AllocationSample.objects.get()
    assert (row.active_percent, row.memory_used_mib) == (None, None)
    assert "not measurable for one MPS share" in page(f"/jobs/{job.label}/metrics")


def test_only_devices_that_a_job_holds_are_kept(olga, team, node, noon):
    sampled(node, noon, utilization_percent=5)
    assert not AllocationSample.objects.exists()
    start(olga, team, node, device={"gpus": 1})
    sampled(node, noon, utilization_percent=5)
    assert [row.minute for row in AllocationSample.objects.all()] == [noon]
