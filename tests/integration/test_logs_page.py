"""The log at full width: the address says what is shown, and every link takes that along."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from portal.jobs.models import Attempt, Job, Replica
from portal.storage.models import Segment
from portal.storage.stores import current_store
from portal.web.job.context import TABS
from tests.support.logs import write_log
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"rank": "0", "wrap": "0", "times": "0"}


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def job(olga) -> Job:
    """Two replicas run; the first wrote 2,500 lines."""
    node = a_node("n1", gpus=2)
    made = a_job(olga, a_project("vision", olga), replicas=2, device={"gpus": 1})
    settle(node)
    write(made, 0, "".join(f"step {n}\n" for n in range(1, 2_501)))
    write(made, 1, "the other\n")
    return made


@pytest.fixture
def page(client: Client, olga, job):
    client.force_login(olga)

    def get(**fields: str) -> str:
        answer = client.get(f"/jobs/{job.label}/logs/full", fields)
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def write(job: Job, rank: int, text: str) -> None:
    replica = Replica.objects.get(attempt__job=job, rank=rank)
    write_log(replica, 0, text.encode())
    Replica.objects.filter(pk=replica.pk).update(log_bytes=len(text.encode()))


def links(text: str) -> list[str]:
    found = [unescape(one) for one in re.findall(r'href="([^"]+)"', text)]
    return [one for one in found if "/logs" in one]


def query(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def test_it_shows_the_end_and_leads_back_to_the_job(page, job):
    text = page(**STATE)
    assert f"Log of {job.name}" in text and "step 2500<" in text and "the other" not in text
    assert "log full unwrapped untimed" in text
    assert f"/jobs/{job.label}/logs?rank=0&wrap=0&times=0" in links(text)
    for rank in (0, 1):
        assert f"/jobs/{job.label}/logs/full?rank={rank}" in links(page())


def test_every_way_on_keeps_how_it_is_shown(page, job):
    for fields in (STATE, STATE | {"line": "5"}, STATE | {"q": "step 24"}):
        text = page(**fields)
        ways = [one for one in links(text) if query(one).keys() - {"wrap", "times"}]
        assert len(ways) > 2
        for way in ways:
            kept = {name: value for name, value in query(way).items() if name in ("wrap", "times")}
            assert kept in ({"wrap": "0", "times": "0"}, {"wrap": "0"}, {"times": "0"}), way
        search = text[text.index('role="search"') : text.index("</form>", text.index('"search"'))]
        for name, value in STATE.items():
            assert f'type="hidden" name="{name}" value="{value}"' in search


def test_a_line_that_was_found_leads_to_where_it_stands(page, client):
    text = page(q="step 1234", rank="0")
    (place,) = [one for one in links(text) if "#" in one]
    there, _, anchor = place.partition("#")
    shown = client.get(there).content.decode()
    assert f'id="{anchor}"' in shown and "step 1233<" in shown and "step 1235<" in shown
    assert shown.index("step 1233<") < shown.index(f'id="{anchor}"') < shown.index("step 1235<")


def test_one_replica_is_downloaded_and_all_lines_have_names_of_their_own(page):
    assert len(re.findall(r'href="[^"]+/log\?[^"]*"', page(rank="0"))) == 1
    names = re.findall(r'<li[^>]* id="([^"]+)"', page())
    assert len(names) == len(set(names)) == 1_000


def test_a_waiting_and_an_ended_job_have_the_page_too(client, olga):
    client.force_login(olga)
    waits = a_job(olga, a_project("bio", olga))
    for _ in range(2):
        answer = client.get(f"/jobs/{waits.label}/logs/full")
        assert answer.status_code == 200
        assert not Attempt.objects.filter(job=waits).exists()
        client.post(f"/jobs/{waits.label}/cancel")
    assert "data-stream" not in answer.content.decode()


def test_nobody_else_finds_it(client, job):
    address = f"/jobs/{job.label}/logs/full"
    assert client.get(address)["Location"].startswith("/sign-in/")
    client.force_login(a_user("eve"))
    assert client.get(address).status_code == 404


def refuse_to_open(name, mode="rb"):
    raise OSError("away")


def test_a_store_that_does_not_answer_is_reported_and_its_lines_come_later(
    page, client, job, monkeypatch
):
    with monkeypatch.context() as broken:
        broken.setattr(current_store()._storage, "open", refuse_to_open)
        for text in (page(), client.get(f"/jobs/{job.label}/logs").content.decode()):
            assert "The log store does not answer. Nothing is lost" in text
            assert "No output yet" not in text
        raw = client.get(reverse("web:raw_log", args=[job.label]))
        assert (raw.status_code, b"does not answer" in raw.content) == (503, True)
    monkeypatch.setattr(current_store(), "_paused_until", 0.0)
    assert "does not answer" not in page()
    assert "step 2500" in page()


def test_every_tab_of_a_failed_job_opens_while_the_store_does_not_answer(
    page, client, job, monkeypatch
):
    Job.objects.filter(pk=job.pk).update(status="failed")
    monkeypatch.setattr(current_store()._storage, "open", refuse_to_open)
    for tab in TABS:
        answer = client.get(f"/jobs/{job.label}/{tab}")
        assert answer.status_code == 200
        is_reported = "The log store does not answer" in answer.content.decode()
        assert is_reported is (tab in ("logs", "ranks", "results"))


def test_a_log_that_lost_bytes_is_an_error_and_no_zeros(page, client, job):
    Segment.objects.filter(stream__endswith="/0").delete()
    text = page()
    assert "The stored log does not agree with the database" in text
    assert "\x00" not in text
    refused = client.get(reverse("web:raw_log", args=[job.label]))
    assert (refused.status_code, b"does not agree" in refused.content) == (500, True)
