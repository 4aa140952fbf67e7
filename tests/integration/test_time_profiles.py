"""A job with a profiler: what its node is told, and where its time went on the page and in REST."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from agents.contract.profilers import Profiler
from portal.files import time_profiles
from portal.files.services import trees_remove
from portal.files.time_profiles import MAX_BYTES, SUMMARY_PATH, TRACE_PATH
from portal.jobs.models import Job, Replica
from tests.support.file_rows import a_tree
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.time_profiles import a_summary

pytestmark = pytest.mark.django_db(transaction=True)
UNREADABLE = "The profile cannot be read"


@pytest.fixture
def olga(client: Client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def ended(olga, team, contents=None, **fields) -> Job:
    """A job that ran to its end, and what it wrote."""
    node = a_node("n1", gpus=2)
    job = a_job(olga, team, **{"profiler": "pytorch"} | fields)
    settle(node)
    if contents:
        a_tree(Replica.objects.get(attempt__job=job), contents)
    node.finish()
    settle(node)
    job.refresh_from_db()
    return job


def results(client: Client, job: Job) -> str:
    text = client.get(f"/jobs/{job.label}/results").content.decode()
    return re.sub(r"\s+", " ", text.replace("\u00a0", " "))


def rest(client: Client, job: Job) -> dict:
    return client.get(f"/api/v1/jobs/{job.label}/time-profile").json()


def test_the_node_is_told_unless_its_agent_is_older(olga, team):
    newer, older = a_node("a"), a_node("b")
    newer.has_profiler = True
    newer.report()
    for _ in (newer, older):
        a_job(olga, team, profiler="pytorch", device={"gpus": 1})
    settle(newer, older)
    said = [replica.profiler for node in (newer, older) for replica in node.hear().replicas]
    assert said == [Profiler.PYTORCH, Profiler.NONE]


def test_the_page_and_rest_say_where_the_time_went(client, olga, team):
    contents = {SUMMARY_PATH: a_summary(), TRACE_PATH: b"trace"}
    job = ended(olga, team, contents)
    text = results(client, job)
    shares = re.findall(r'<progress max="1000" value="(\d+)"', text)
    assert shares == ["500", "300", "50", "150"]
    assert "Communication that no computing hides takes 30 % of the time" in text
    assert "Attempt 1: 10 steps of the optimizer in 2.00 s, with PyTorch 2.7.1." in text
    assert "For another 10 % of the time, communication is hidden by computing." in text
    assert "nccl &lt;b&gt;" in text and "nccl <b>" not in text
    (trace,) = re.findall(r'class="btn small" download href="([^"]*)"', text)
    assert b"".join(client.get(trace.replace("&amp;", "&"))) == b"trace"
    answer = rest(client, job)
    assert (answer["attempt"], answer["problem"]) == (1, "")
    profile = answer["profile"]
    assert (profile["compute_us"], profile["idle_us"], profile["steps"]) == (1e6, 3e5, 10)
    assert profile["operators"][1]["name"] == "nccl <b>"
    assert len(profile["hints"]) == 1


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({"other.txt": b"x"}, "The profiler wrote nothing"),
        ({SUMMARY_PATH: b"{}"}, UNREADABLE),
        ({SUMMARY_PATH: b"[" * 70_000}, UNREADABLE),
    ],
)
def test_without_a_profile_it_says_why(client, olga, team, contents, said):
    job = ended(olga, team, contents)
    assert said in results(client, job)
    answer = rest(client, job)
    assert answer["problem"].startswith(said) and answer["profile"] is None


def test_a_trace_without_a_summary_can_be_had(client, olga, team):
    text = results(client, ended(olga, team, {TRACE_PATH: b"trace"}))
    assert "There is a trace without a summary" in text
    assert re.search(r'class="btn small" download href="[^"]*trace.json.gz"', text)


def test_not_a_byte_is_read_of_what_is_too_long_for_a_summary(client, olga, team, monkeypatch):
    job = ended(olga, team, {SUMMARY_PATH: b" " * (MAX_BYTES + 1)})
    monkeypatch.setattr(time_profiles, "range_pieces", None)
    assert UNREADABLE in results(client, job)


def test_a_profile_that_was_removed_is_gone(client, olga, team):
    job = ended(olga, team, {SUMMARY_PATH: a_summary()})
    trees_remove(trees=list(job.trees.all()), now=timezone.now())
    assert "The output of the job was removed, and any profile with it" in results(client, job)


def test_a_job_that_has_not_ended_has_none_yet(client, olga, team):
    job = a_job(olga, team, profiler="pytorch")
    assert "The profile appears here when the job has ended" in results(client, job)


def test_a_job_without_a_profiler_can_be_asked_for_again_with_one(client, olga, team):
    job = ended(olga, team, profiler="none")
    text = results(client, job)
    assert "Where the time went" not in text
    assert rest(client, job)["problem"] == "The job has no profiler"
    (address,) = re.findall(r'href="(/request/\?like=[^"]*change=[^"]*)"[^>]*>', text)
    form = client.get(address.replace("&amp;", "&")).content.decode()
    assert re.search(r'<option value="pytorch"[^>]*selected', form)


def test_a_job_that_has_one_offers_no_other(client, olga, team):
    assert "Profile this job" not in results(client, a_job(olga, team, profiler="pytorch"))


@pytest.mark.parametrize("fields", [{"launcher": "vllm"}, {"launcher": "jupyter"}])
def test_what_makes_no_steps_is_refused(client, olga, team, fields):
    body = {"project": "vision", "name": "a", "image": "i", "device": {"gpus": 1}}
    body |= {"command": ["python", "a.py"], "profiler": "pytorch"} | fields
    answer = client.post("/api/v1/jobs?dry_run=true", body, "application/json").json()
    (error,) = [one for one in answer["errors"] if one["field"] == "profiler"]
    assert error["suggestion"] == {"profiler": "none"}
