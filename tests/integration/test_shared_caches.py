"""What members of a project are told of the caches that nodes give to its jobs."""

from html import unescape

import pytest
from django.test import Client

from agents.contract.caches import OfferedCache
from portal.volumes.caches import ProjectCache, caches_of_projects
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db

MODELS = OfferedCache("models", "HF_HUB_CACHE", ("vision",))
HIDDEN = OfferedCache("drafts", "DRAFTS", ("speech",))


@pytest.fixture
def node():
    node = a_node("n1")
    node.caches = (MODELS, HIDDEN)
    node.report()
    return node


def test_only_those_of_the_own_projects_are_told(node):
    other = a_node("n2")
    other.caches = (OfferedCache("models", "HF_HUB_CACHE", ("*",)),)
    other.report()
    assert caches_of_projects(["vision"]) == [
        ProjectCache("models", "HF_HUB_CACHE", ("n1", "n2"), ("vision",))
    ]
    assert caches_of_projects(["biology"]) == [
        ProjectCache("models", "HF_HUB_CACHE", ("n2",), ("biology",))
    ]
    node.caches = ()
    node.report()
    assert [cache.nodes for cache in caches_of_projects(["vision"])] == [("n2",)]


def test_the_form_and_the_page_of_a_running_job_say_which_there_are(node):
    olga = a_user("olga")
    team = a_project("vision", olga)
    a_project("speech")
    page = Client()
    page.force_login(olga)
    form = unescape(page.get("/request/").content.decode())
    assert "Jobs of vision read the shared cache models at <code>/caches/models</code>" in form
    assert "On 1 node: n1" in form and "drafts" not in form
    job = a_job(olga, team)
    settle(node)
    shown = unescape(page.get(f"/jobs/{job.label}/").content.decode())
    assert "its path is in <code>HF_HUB_CACHE</code>" in shown and "drafts" not in shown
