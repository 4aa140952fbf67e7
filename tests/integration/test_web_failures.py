"""A failed job says what failed on every page, and one button mends it."""

import json
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
from django.template.loader import render_to_string
from django.utils.html import escape

from portal.diagnosis.services import diagnoses_refresh, job_diagnose
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus
from tests.support.failed_jobs import a_failed_job
from tests.support.markup import Markup
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db
HEADER = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
OUT_OF_MEMORY = (
    HEADER + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
HEADLINE = "CUDA ran out of memory: it tried to allocate 2.00 GiB"


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def home(alice):
    a_node("node-a")
    return a_project("vision", alice)


def a_diagnosed_job(user, home, log=OUT_OF_MEMORY, **fields) -> Job:
    job = a_failed_job(user, home, log, **fields)
    job_diagnose(job_id=job.pk)
    job.refresh_from_db()
    return job


def page(client, user, address, **query) -> str:
    client.force_login(user)
    answer = client.get(address, query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_job_page_has_headline_evidence_with_a_link_and_one_button(client, alice, home):
    job = a_diagnosed_job(alice, home, device={"mig": "1g.18gb"})
    text = page(client, alice, f"/jobs/{job.label}/")
    assert f'<h2 id="why">{HEADLINE}</h2>' in text
    assert "torch.OutOfMemoryError: CUDA out of memory" in text
    assert f'href="/jobs/{job.label}/logs?attempt=1&amp;rank=0&amp;line=1#r0-3"' in text
    assert "Ask again with 35 GB" in text


def test_the_button_opens_the_form_with_the_larger_device_and_start_starts_it(client, alice, home):
    job = a_diagnosed_job(alice, home, device={"mig": "1g.18gb"})
    remedy = job.diagnosis["remedy"]
    query = {"like": job.label, "change": json.dumps(remedy["changes"])}
    form = page(client, alice, "/request/", **query)
    assert 'value="1g.35gb"' in form
    (filled,) = (each for each in Markup(form).forms if "command" in each.fields)
    answer = client.post("/request/", filled.fields)
    assert answer.status_code == 302, answer.content.decode()[:2000]
    new = Job.objects.exclude(pk=job.pk).get()
    assert new.request["device"] == {"mig": "1g.35gb"}
    assert new.request["command"] == job.request["command"]


def test_more_host_memory_is_prefilled_too(client, alice, home):
    job = a_diagnosed_job(alice, home, b"", exit_code=137, memory="2GiB")
    form = page(client, alice, "/request/", like=job.label, change=json.dumps({"memory": "4GiB"}))
    assert 'id="memory" name="memory" value="4GiB"' in form


def test_markup_in_a_log_is_text_on_every_page(client, alice, home):
    log = HEADER + b"ValueError: <script>alert(1)</script>\n"
    job = a_diagnosed_job(alice, home, log)
    alice.is_superuser = True
    alice.save()
    for address in (
        f"/jobs/{job.label}/",
        f"/jobs/{job.label}/results",
        "/jobs/",
        "/",
        "/console/",
    ):
        text = page(client, alice, address)
        assert "<script>alert(1)" not in text
    assert escape("ValueError: <script>alert(1)</script>") in page(client, alice, "/jobs/")


def test_results_name_the_cause_of_each_attempt_with_a_link_to_its_line(client, alice, home):
    job = a_failed_job(alice, home, OUT_OF_MEMORY)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.QUEUED, stop_reason="", finished_at=None)
    diagnoses_refresh()
    text = page(client, alice, f"/jobs/{job.label}/results")
    assert HEADLINE in text
    assert f'href="/jobs/{job.label}/logs?attempt=1&amp;rank=0&amp;line=1#r0-3"' in text


def test_jobs_groups_by_cause_and_filters_by_it(client, alice, home):
    for _ in range(2):
        a_diagnosed_job(alice, home)
    other = a_diagnosed_job(alice, home, b"")
    text = page(client, alice, "/jobs/")
    assert 'href="?cause=gpu_memory">Out of GPU memory <b>2</b></a>' in text
    filtered = page(client, alice, "/jobs/", cause="gpu_memory")
    assert HEADLINE in filtered
    assert f">{other.label}<" not in filtered


def test_counts_are_those_of_the_readers_own_projects(client, alice, home):
    a_diagnosed_job(alice, home)
    stranger = a_user("bob")
    a_project("audio", stranger)
    assert "Failed jobs by cause" not in page(client, stranger, "/jobs/")


def test_home_says_why_a_finished_job_failed(client, alice, home):
    a_diagnosed_job(alice, home)
    assert HEADLINE in page(client, alice, "/")


def test_the_console_counts_failures_of_all_projects(client, alice, home):
    a_diagnosed_job(alice, home)
    admin = a_user("root", is_superuser=True)
    text = page(client, admin, "/console/")
    assert "Failed jobs of the last 7 days, by cause" in text
    (link,) = [part for part in text.split('"') if part.startswith("/jobs/?cause=")]
    assert parse_qs(urlsplit(link).query)["cause"] == ["gpu_memory"]
    assert HEADLINE in page(client, admin, link.replace("&amp;", "&"))


def test_a_notice_does_not_quote_the_log(alice, home):
    quoted = a_diagnosed_job(alice, home, HEADER + b"ValueError: customer 4711 has no rows\n")
    known = a_diagnosed_job(alice, home)
    cause = partial(render_to_string, "notices/cause.txt")
    assert cause({"job": quoted}).strip() == "Python exception"
    assert cause({"job": known}).strip() == HEADLINE


def test_chinese_readers_get_the_same_in_chinese(client, alice, home):
    job = a_diagnosed_job(alice, home)
    client.force_login(alice)
    text = client.get(
        f"/jobs/{job.label}/", headers={"accept-language": "zh-hans"}
    ).content.decode()
    assert "CUDA 显存不足：试图分配 2.00 GiB" in text
    assert HEADLINE not in text
