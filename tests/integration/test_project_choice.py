"""The project chosen in the bar: every list and a new request follow it, and it gives no right."""

from __future__ import annotations

import re
from html import unescape

import pytest

from portal.accounts.models import Role
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
LISTS = {
    "/jobs/": "/jobs/?project=vision",
    "/queue/": "/queue/?whose=project-vision",
    "/usage/": "/usage/?of=project%3Avision",
}


@pytest.fixture
def olga(client):
    user = a_user("olga")
    client.force_login(user)
    return user


@pytest.fixture
def both(olga):
    projects = a_project("speech", olga, gpus=2), a_project("vision", olga, gpus=8)
    for project in projects:
        a_job(olga, project, name=f"in-{project.slug}")
    return projects


@pytest.fixture
def choose(client):
    def post(slug: str, page: str = "/") -> str:
        return client.post("/home/project", {"project": slug, "next": page}).headers["Location"]

    return post


@pytest.fixture
def page(client):
    return lambda path: unescape(client.get(path, follow=True).content.decode())


def shown_in_bar(text: str) -> str:
    (label,) = re.findall(r'<summary class="btn quiet small" aria-label="Project: ([^"]+)"', text)
    return label


@pytest.mark.parametrize(("path", "filtered"), LISTS.items())
def test_a_list_that_is_opened_without_a_filter_follows_the_choice(
    client, page, choose, both, path, filtered
):
    assert client.get(path).status_code == 200
    choose("vision")
    assert client.get(path).headers["Location"] == filtered
    text = page(path)
    assert "in-speech" not in text and shown_in_bar(text) == "vision"
    assert f'href="{filtered.replace("%3A", ":")}"' in unescape(text).replace("%3A", ":")


def test_the_file_the_stream_and_the_links_of_a_list_keep_the_project(page, choose, both):
    choose("vision")
    text = page("/jobs/")
    assert "in-vision" in text and "The matching jobs of vision." in text
    assert 'href="/jobs.csv?project=vision"' in text
    assert re.search(r'data-stream="[^"]*project=vision', text)
    assert re.search(r'href="\?status=[^"]*project=vision"', text)
    text = page("/queue/")
    assert "in-vision" in text and 'href="/queue.csv?whose=project-vision"' in text


@pytest.mark.parametrize("path", ["/jobs/?project=", "/queue/?whose=", "/usage/?of=me"])
def test_an_address_with_a_filter_shows_what_it_says(client, page, choose, both, path):
    choose("vision")
    text = page(path)
    assert shown_in_bar(text) == "All projects"
    for link in re.findall(r'href="(\?[^"]*)"', text):
        assert client.get(path.partition("?")[0] + link).status_code == 200, link
    assert 'href="?"' not in text


def test_the_choice_is_made_on_the_page_and_keeps_its_other_filters(choose, both):
    assert choose("vision", "/jobs/?name=in&after=xyz") == "/jobs/?project=vision&name=in"
    assert choose("", "/jobs/?project=vision&name=in") == "/jobs/?project=&name=in"
    assert choose("speech", "/queue/") == "/queue/?whose=project-speech"
    assert choose("", "/usage/?of=project%3Avision&period=30d") == "/usage/?of=me&period=30d"
    assert choose("vision", "/request/?project=speech") == "/request/?project=vision"
    assert choose("vision", "/cluster/") == "/cluster/"


@pytest.mark.parametrize("page", ["https://evil.example/", "//evil.example/jobs/", "/no-such/", ""])
def test_the_way_back_leads_to_no_other_site(choose, both, page):
    assert choose("vision", page) == "/"


def test_the_bar_says_what_the_page_is_about(page, choose, both):
    assert shown_in_bar(page("/")) == "All projects"
    choose("vision")
    assert shown_in_bar(page("/cluster/")) == "vision"
    assert shown_in_bar(page("/jobs/?project=speech")) == "speech"
    assert shown_in_bar(page("/request/?like=J-1")) == "vision"


def test_of_many_projects_the_queue_marks_the_chosen_one(page, choose, olga):
    for number in range(1, 7):
        a_project(f"p{number}", olga)
    choose("p6")
    marked = re.findall(r'<a href="\?[^"]*" aria-current="true">([^<]+)</a>', page("/queue/"))
    assert marked == ["p6"]


def test_it_is_a_filter_and_no_right(client, page, choose, olga, both):
    eve = a_user("eve")
    a_job(eve, a_project("secret", eve), name="zebra")
    choose("secret")
    assert "project" not in client.session
    assert "zebra" not in page("/jobs/?project=secret")
    choose("vision")
    both[1].memberships.all().delete()
    assert "zebra" not in page("/jobs/") and client.get("/jobs/").status_code == 200
    both[1].memberships.create(user=olga, role=Role.VIEWER)
    assert shown_in_bar(page("/")) == "vision"


def test_a_platform_admin_sees_the_limits_of_the_chosen_project(client, choose):
    root = a_user("root", is_superuser=True)
    client.force_login(root)
    for slug in ("speech", "vision"):
        a_project(slug, root, gpus=2)
    choose("vision")
    answer = client.get("/console/limits/")
    assert answer.headers["Location"] == "/console/limits/?project=vision"
    text = client.get("/console/limits/?project=vision").content.decode()
    assert 'href="/projects/vision/quota?model="' in text
    assert 'href="/projects/speech/quota?model="' not in text
    assert 'href="/console/limits/?project="' in text
