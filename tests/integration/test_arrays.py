"""Arrays: many jobs made, shown, cancelled and retried as one."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from portal.arrays.models import JobArray
from portal.arrays.room import CapRoom
from portal.arrays.selectors import MemberCounts, member_counts, members_of
from portal.arrays.services import array_cancel
from portal.errors import Refused
from portal.inventory.models import Node
from portal.job_metrics.array_results import results_table
from portal.jobs.models import Attempt, Job, Replica
from portal.planning.requests import waiting_jobs_from_queryset
from portal.submission.arrays import array_retry, request_submit
from portal.submission.dry_run import dry_run
from portal.submission.retries import job_retry
from portal.web.array.stream import live_array
from scheduler.core.request import InvalidRequest, parse_request
from tests.support.job_metrics import metrics_report, series_points
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db

ECHO = ["echo", "{index}"]


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    a_node("n1", gpus=8)
    return a_project("vision", alice, gpus=64)


@pytest.fixture
def client(alice) -> APIClient:
    client = APIClient()
    client.force_authenticate(alice)
    return client


def an_array(user, home, array="0-3%2", **fields) -> JobArray:
    body = a_request(home, **({"array": array, "command": ECHO} | fields))
    return request_submit(user=user, request=parse_request(body, LIMITS)).array


def end(job: Job, status: str) -> None:
    Job.objects.filter(pk=job.pk).update(status=status, finished_at=timezone.now())


def statements(run) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        run()
    return len(seen)


def test_each_member_is_a_complete_job_with_its_parameters(alice, vision):
    sweep = ["lr=1e-3,1e-4", "seed=1,2"]
    command = ["train", "--lr", "{lr}", "${HOME}", "{{kept}}"]
    array = an_array(alice, vision, "%3", sweep=sweep, command=command, env={"RUN": "r{index}"})
    last = members_of(array).last()
    assert (array.size, array.max_running, array.request["array"]) == (4, 3, "%3")
    assert last.array_index == 3 and last.array_cap == 3
    assert last.request["command"] == ["train", "--lr", "1e-4", "${HOME}", "{kept}"]
    assert last.request["env"] == {
        "RUN": "r3",
        "TESSERA_ARRAY_INDEX": "3",
        "TESSERA_ARRAY_SIZE": "4",
        "TESSERA_PARAM_LR": "1e-4",
        "TESSERA_PARAM_SEED": "2",
    }
    assert not {"array", "sweep"} & last.request.keys()


def test_a_large_array_is_made_and_cancelled_in_a_few_statements(alice, vision):
    small, large = [], []
    for array, seen in (("0-19%3", small), ("0-199%3", large)):
        seen.append(statements(lambda text=array: an_array(alice, vision, text)))
        made = JobArray.objects.latest("pk")
        seen.append(statements(lambda row=made: array_cancel(array=row, actor="alice")))
        assert member_counts([made.pk])[made.pk] == MemberCounts(cancelled=made.size)
    # SQLite takes few values in a statement: ten times the members are some more of them.
    assert large[0] <= small[0] + 20 and large[1] <= small[1] + 20


def test_a_refused_array_leaves_nothing(alice, vision):
    vision.max_pending = 3
    vision.save()
    with pytest.raises(Refused, match="3 jobs waiting"):
        an_array(alice, vision, "0-3")
    assert not Job.objects.exists() and not JobArray.objects.exists()


def test_an_array_is_approved_as_a_whole(alice, vision):
    vision.approval_unit_seconds = 1
    vision.save()
    array = an_array(alice, vision)
    assert set(members_of(array).values_list("status", flat=True)) == {"awaiting_approval"}


@pytest.mark.parametrize(("verb", "body"), [("approve", {}), ("refuse", {"because": "too many"})])
def test_rest_decides_on_an_array_as_a_whole(verb, body, alice, vision):
    vision.approval_unit_seconds = 1
    vision.save()
    address = f"/api/v1/arrays/{an_array(alice, vision).label}/{verb}"
    caller = APIClient()
    caller.force_authenticate(alice)
    assert caller.post(address, body, format="json").status_code == 403
    root = a_user("root", is_superuser=True)
    caller.force_authenticate(root)
    decided = caller.post(address, body, format="json").json()["members"]
    assert decided["cancelled" if body else "waiting"] == 4
    assert set(Job.objects.values_list("status", flat=True)) == {"cancelled" if body else "queued"}
    assert caller.post(address, body, format="json").json()["code"] == "not_awaiting"
    if body:
        assert caller.post(address, {}, format="json").status_code == 400


def test_a_dry_run_counts_what_may_run_at_once_and_all_the_time(alice, vision):
    body = a_request(vision, command=["true"])
    one = dry_run(user=alice, request=parse_request(body, LIMITS))
    many = dry_run(user=alice, request=parse_request(body | {"array": "0-99%10"}, LIMITS))
    assert (many.units, many.unit_seconds) == (10 * one.units, 100 * one.unit_seconds)
    assert not JobArray.objects.exists()


def test_the_committer_counts_the_members_with_devices(alice, vision):
    first, second, *rest = members_of(an_array(alice, vision))
    end(first, "running")
    room = CapRoom([second, *rest])
    assert not room.is_full(second)
    room.enter(second)
    assert room.is_full(rest[0])
    assert not CapRoom([a_job(alice, vision)]).is_full(rest[0].__class__())


def test_a_retry_takes_the_index_and_the_old_job_is_no_member(alice, vision):
    array = an_array(alice, vision)
    for job, status in zip(members_of(array), ("failed", "succeeded", "cancelled"), strict=False):
        end(job, status)
    new = array_retry(array=array, actor=alice, limits=LIMITS)
    assert [job.array_index for job in new] == [0, 2]
    assert member_counts([array.pk])[array.pk] == MemberCounts(waiting=3, succeeded=1)
    assert members_of(array).first().is_array_row
    assert array.jobs.filter(array_index=None, is_array_row=False).count() == 2
    with pytest.raises(Refused, match="No member"):
        array_retry(array=array, actor=alice, limits=LIMITS)
    end(new[1], "failed")
    again = job_retry(job=Job.objects.get(pk=new[1].pk), actor=alice, limits=LIMITS)
    assert (again.array_id, again.array_index, again.array_cap) == (array.pk, 2, 2)


def test_a_job_may_wait_for_all_members(alice, vision):
    array = an_array(alice, vision, "0-6")
    body = a_request(vision, after=[array.label])
    job = request_submit(user=alice, request=parse_request(body, LIMITS))
    (waiting,) = waiting_jobs_from_queryset(Job.objects.filter(pk=job.pk))
    assert waiting.after == (array.label,)
    members_of(array).update(status="succeeded")
    (waiting,) = waiting_jobs_from_queryset(Job.objects.filter(pk=job.pk))
    assert waiting.after == ()
    end(members_of(array)[3], "failed")
    with pytest.raises(Refused, match="ended as failed"):
        request_submit(user=alice, request=parse_request(body, LIMITS))
    body = a_request(vision, after=[f"{array.label}:ended"])
    job = request_submit(user=alice, request=parse_request(body, LIMITS))
    (waiting,) = waiting_jobs_from_queryset(Job.objects.filter(pk=job.pk))
    assert waiting.after == ()
    with pytest.raises(Refused, match="A-999 is not a job"):
        unknown = a_request(vision, after=["A-999"])
        request_submit(user=alice, request=parse_request(unknown, LIMITS))


def test_lists_have_one_row_for_an_array_and_its_members_on_request(client, alice, vision):
    array = an_array(alice, vision)
    single = a_job(alice, vision)
    last = members_of(array).last()
    end(last, "failed")

    def listed(query=""):
        return client.get(f"/api/v1/jobs{query}").json()["results"]

    rows = listed()
    assert Counter(bool(row["array"]) for row in rows) == {True: 1, False: 1}
    (row,) = [row for row in rows if row["array"]]
    assert row["array"]["id"] == array.label
    assert row["array"]["members"] == {
        "running": 0,
        "waiting": 3,
        "succeeded": 0,
        "failed": 1,
        "cancelled": 0,
    }
    assert [row["array"]["id"] for row in listed("?status=failed")] == [array.label]
    assert len(listed(f"?array={array.label}")) == 4
    assert [row["id"] for row in listed(f"?array={array.label}&status=failed")] == [last.label]
    assert [row["id"] for row in listed(f"?name={last.label}")] == [last.label]
    assert single.label in {row["id"] for row in listed("?status=queued")}


def test_rest_submits_shows_cancels_and_retries_an_array(client, vision):
    body = a_request(vision, sweep={"lr": [0.1, 0.2]}, command=["train", "{lr}"])
    made = client.post("/api/v1/jobs", body, format="json", HTTP_IDEMPOTENCY_KEY="k").json()
    again = client.post("/api/v1/jobs", body, format="json", HTTP_IDEMPOTENCY_KEY="k").json()
    assert made == again
    address = f"/api/v1/arrays/{made['array']['id']}"
    shown = client.get(address).json()
    assert shown["request"]["sweep"] == ["lr=0.1,0.2"] and shown["members"]["waiting"] == 2
    assert client.post(f"{address}/cancel").json()["members"]["cancelled"] == 2
    assert client.post(f"{address}/cancel").status_code == 200
    assert client.post(f"{address}/retry").json()["members"]["waiting"] == 2
    assert client.get("/api/v1/arrays/A-0").status_code == 404
    assert len(client.get(shown["links"]["members"]).json()["results"]) == 2


def test_the_pages_of_an_array(alice, vision):
    client = Client()
    client.force_login(alice)
    array = an_array(alice, vision, "%2", sweep=["lr=0.5,0.25"], command=["train", "{lr}"])
    end(members_of(array).last(), "failed")
    page = client.get(f"/arrays/{array.label}/").content.decode()
    assert f"{array.label}[1]" in page and "0.25" in page and "1 waiting, 1 failed" in page
    assert "Retry 1 member" in page and "Cancel all" in page
    member = client.get(f"/jobs/{members_of(array).first().label}/").content.decode()
    assert f'<a href="/arrays/{array.label}/">{array.label}</a>' in member
    assert f"/arrays/{array.label}/" in client.get("/jobs/?project=").content.decode()
    only = client.get(f"/arrays/{array.label}/?state=failed").content.decode()
    assert f"{array.label}[0]" not in only
    client.post(f"/arrays/{array.label}/retry")
    assert "Cancel all members" in client.get(f"/arrays/{array.label}/cancel").content.decode()
    client.post(f"/arrays/{array.label}/cancel")
    assert member_counts([array.pk])[array.pk] == MemberCounts(cancelled=2)
    stranger = Client()
    stranger.force_login(a_user("eve"))
    assert stranger.get(f"/arrays/{array.label}/").status_code == 404


def test_the_metrics_of_an_array_are_one_table(client, alice, vision):
    array = an_array(alice, vision, "", sweep=["lr=-0.5,=x,0.25"], command=["train", "{lr}"])
    node = Node.objects.get()
    for member, value in zip(members_of(array), (-0.25, 0.75), strict=False):
        attempt = Attempt.objects.create(job=member, number=1, created_at=timezone.now())
        for rank in (1, 0):
            replica = Replica.objects.create(attempt=attempt, rank=rank, node=node)
            metrics_report(replica, series_points("loss", (1, 0.9 + rank), (2, value + rank)))
    address = f"/api/v1/arrays/{array.label}/metrics"
    shown = client.get(address).json()
    assert shown["next_after"] is None
    first, _, last = shown["results"]
    assert first["parameters"] == {"lr": "-0.5"} and first["status"] == "queued"
    assert first["metrics"] == {"loss": {"last": -0.25, "low": -0.25, "high": 0.9}}
    assert last["metrics"] == {}
    label = members_of(array).first().label
    lines = client.get(address, {"csv": "true"}).content.decode().splitlines()
    assert lines[:2] == [
        "index,job,status,lr,loss.last,loss.min,loss.max",
        f"0,{label},queued,-0.5,-0.25,-0.25,0.9",
    ]
    assert ",'=x," in lines[2] and lines[3].endswith(",0.25,,,")
    with CaptureQueriesContext(connection) as seen:
        results_table(array)
    assert len(seen) == 3
    browser = Client()
    browser.force_login(alice)
    page = browser.get(f"/arrays/{array.label}/?by=loss").content.decode()
    assert "-0.25 to 0.9" in page
    file = browser.get(f"/arrays/{array.label}/metrics.csv")
    assert file.content.decode() == "\ufeff" + "\r\n".join([*lines, ""])
    browser.force_login(a_user("eve"))
    assert browser.get(f"/arrays/{array.label}/metrics.csv").status_code == 404


def test_the_page_of_an_array_follows_its_members(alice, vision):
    array = an_array(alice, vision)
    parts = live_array(alice, array.label, QueryDict())
    assert "4 waiting" in parts.html and "queue" in parts.bells
    assert {f"job:{job.pk}" for job in members_of(array)} < set(parts.bells)
    for job in members_of(array):
        end(job, "succeeded")
    parts = live_array(alice, array.label, QueryDict("state=waiting"))
    assert "4 of 4 have ended" in parts.html and "No member is in this state" in parts.html
    assert parts.bells == ()
    assert live_array(a_user("eve"), array.label, QueryDict()).html == ""


@pytest.mark.parametrize(
    ("fields", "field", "mended"),
    [
        ({"array": "10-1"}, "array", {"array": "1-10"}),
        ({"array": "100"}, "array", {"array": "0-99"}),
        ({"array": "[0..9] % 3"}, "array", None),
        ({"array": "0-5000"}, "array", {}),
        ({"array": "%5"}, "array", {}),
        ({"sweep": ["lr: 1 2"]}, "sweep.0", {"sweep": ["lr=1,2"]}),
        ({"sweep": ["lr=1"], "array": "0-3%2"}, "array", {"array": "%2"}),
        ({"array": "0-3", "command": ["{indx}"]}, "command.0", {"command": ["{index}"]}),
        ({"array": "0-3", "command": ["{print}"]}, "command.0", {"command": ["{{print}}"]}),
    ],
)
def test_bad_syntax_names_the_field_and_offers_what_was_meant(fields, field, mended):
    body = {"project": "p", "name": "n", "image": "a:b", "command": ["true"]}
    with pytest.raises(InvalidRequest) as refused:
        parse_request(body | {"device": {"gpus": 1}} | fields, LIMITS)
    (error,) = refused.value.errors
    assert error.field == field
    if mended is not None:
        assert error.suggestion == mended
