"""Why a node failed a job, in the reader's language; what the portal does not know, in English."""

import pytest
from django.test import Client

from agents.contract.message import Message
from agents.contract.shares import too_few_threads
from agents.contract.wire_messages import WireMessage, to_wire
from portal.audit.models import Event
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

NEWER = Message("the %(part)s of GPU %(gpu)s is upside down", part=Message("fan"), gpu=3)
KNOWN = too_few_threads(3, 4)


def failed_job(sentence: str, wire: WireMessage | None) -> Job:
    """A job that its node failed with this sentence."""
    alice = a_user()
    job = a_job(alice, a_project("vision", alice))
    node = a_node("n1")
    settle(node)
    node.finish(exit_code=1, code="sunspots", sentence=sentence, message=wire)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.FAILED
    return job


def page_of(job: Job, language: str, tab: str = "") -> str:
    client = Client(HTTP_ACCEPT_LANGUAGE=language)
    client.force_login(job.owner)
    return client.get(f"/jobs/{job.label}/{tab}").content.decode()


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_message_of_a_newer_node_is_shown_in_english(language):
    job = failed_job(NEWER.text, to_wire(NEWER))
    assert "the fan of GPU 3 is upside down" in page_of(job, language)
    assert "the fan of GPU 3 is upside down" in page_of(job, language, "events")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_name_of_a_newer_node_is_shown_as_the_sentence_that_came_with_it(language):
    job = failed_job("it broke in a new way", WireMessage("breaks.in_new_ways", {"n": "3"}))
    page = page_of(job, language)
    assert "it broke in a new way" in page and "new_ways" not in page


def test_a_message_that_the_portal_knows_is_translated():
    job = failed_job(KNOWN.text, to_wire(KNOWN))
    assert KNOWN.text in page_of(job, "en")
    page = page_of(job, "zh-hans")
    assert KNOWN.text not in page and "3 % 的 SM" in page


def test_lines_of_history_of_earlier_versions_are_translated():
    job = failed_job("it broke", None)
    template = {"template": "cancelled by %(user)s", "values": {"user": "ada"}}
    line = Event.objects.filter(job=job).exclude(new="").latest("id")
    for data, chinese in (
        ({"phrase": template}, "ada 已取消"),
        ({"said": {"key": "unblocks.nothing_to_do", "values": {}}}, "无需操作"),
        ({}, "plain English of long ago"),
    ):
        Event.objects.filter(pk=line.pk).update(data=data, sentence="plain English of long ago")
        assert chinese in page_of(job, "zh-hans", "events")
