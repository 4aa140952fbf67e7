"""The pages of sharing and of tokens for apps, and the same over REST."""

import pytest
from django.test import Client, override_settings

from portal.accounts.models import Membership, Role
from portal.apps.models import AppGuest, AppToken
from portal.audit.models import AuditEntry
from portal.settings.configured import PLATFORM
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def served():
    platform = type(PLATFORM)(**{**vars(PLATFORM), "apps_domain": "apps.test"})
    with override_settings(PLATFORM=platform):
        yield


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def job(olga):
    return a_job(olga, a_project("vision", olga), apps=["web:8080"], kind="notebook")


def signed_in(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_the_owner_shares_an_app_and_takes_it_back(olga, job):
    gus, browser = a_user("gus"), signed_in(olga)
    path = f"/jobs/{job.label}/apps/web/people"
    assert path in browser.get(f"/jobs/{job.label}/").content.decode()
    assert "as you, with your files and secrets" in browser.get(path).content.decode()
    wrong = browser.post(path, {"user": "<b>nobody"})
    assert wrong.status_code == 404
    assert "&lt;b&gt;nobody" in wrong.content.decode()
    assert browser.post(path, {"user": " gus "}).url == path
    assert "gus" in browser.get(path).content.decode()
    page = signed_in(gus).get("/apps/").content.decode()
    assert f"http://web--j{job.pk}.apps.test" in page
    # It waits, so there is nothing to open yet.
    assert f"/jobs/{job.label}/apps/web/open" not in page
    assert browser.post(f"{path}/gus/remove").url == path
    assert not AppGuest.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="app_guest").order_by("pk")
    assert [line.action for line in actions] == ["app_guest_add", "app_guest_remove"]


def test_an_admin_of_the_project_only_takes_back(olga, job):
    ada, mia = a_user("ada"), a_user("mia")
    for user, role in ((ada, Role.ADMIN), (mia, Role.MEMBER)):
        Membership.objects.create(project=job.project, user=user, role=role)
    AppGuest.objects.create(job=job, app="web", user=a_user("gus"))
    path = f"/jobs/{job.label}/apps/web/people"
    admin = signed_in(ada)
    page = admin.get(path).content.decode()
    assert 'name="user"' not in page
    assert admin.post(path, {"user": "mia"}).status_code == 403
    assert signed_in(mia).get(path).status_code == 404
    admin.post(f"{path}/gus/remove")
    assert not AppGuest.objects.exists()


def test_a_token_is_created_for_the_app_one_came_from_shown_once_and_revoked(olga, job):
    browser = signed_in(olga)
    page = browser.get(f"/apps/?opens={job.label}/web").content.decode()
    assert f'<option value="{job.label}/web" selected>' in page
    assert '<option value="vision">' in page
    form = {"name": "ci", "days": "30", "opens": f"{job.label}/web"}
    shown = browser.post("/apps/", form)
    secret = shown.context["secret"]
    token = AppToken.objects.get()
    assert (token.job, token.app, token.key) == (job, "web", secret[:16])
    assert secret in shown.content.decode()
    assert "no-store" in shown["Cache-Control"]
    listed = browser.get("/apps/").content.decode()
    assert secret not in listed and token.key in listed
    for wrong in ({"days": "0"}, {"opens": "speech"}, {"opens": "J-9999/web"}, {"name": ""}):
        assert browser.post("/apps/", form | wrong).status_code == 400
    path = f"/apps/tokens/{token.key}/revoke"
    assert signed_in(a_user("gus")).get(path).status_code == 404
    assert browser.get(path).status_code == 200
    assert browser.post(path).url == "/apps/"
    assert not AppToken.objects.exists()


def test_rest_shares_and_makes_tokens_as_the_pages_do(olga, job):
    gus = a_user("gus")
    browser, of_gus = signed_in(olga), signed_in(gus)
    guest = f"/api/v1/jobs/{job.label}/apps/web/guests/gus"
    assert browser.put(guest).json()["user"] == "gus"
    (app,) = browser.get(f"/api/v1/jobs/{job.label}/apps").json()["results"]
    assert (app["name"], app["port"], app["may_open"]) == ("web", 8080, True)
    assert app["address"] == f"http://web--j{job.pk}.apps.test"
    assert [each["user"] for each in app["guests"]] == ["gus"]
    (shared,) = of_gus.get("/api/v1/guest-apps").json()["results"]
    assert (shared["job"], shared["app"], shared["owner"]) == (job.label, "web", "olga")

    def create(client, **body):
        options = {"data": {"name": "ci"} | body, "content_type": "application/json"}
        return client.post("/api/v1/app-tokens", **options)

    made = create(of_gus, job=job.label, app="web").json()
    assert made["token"].startswith(made["id"])
    (row,) = of_gus.get("/api/v1/app-tokens").json()["results"]
    assert "token" not in row
    assert (row["job"], row["project"], row["requests"]) == (job.label, "vision", 0)
    for body in ({}, {"job": job.label}, {"job": job.label, "app": "web", "project": "vision"}):
        assert create(browser, **body).status_code == 400
    assert create(of_gus, project="vision").status_code == 404
    assert browser.delete(guest).status_code == 204
    assert browser.delete(guest).status_code == 404
    assert create(of_gus, job=job.label, app="web").status_code == 404
    assert of_gus.delete(f"/api/v1/app-tokens/{made['id']}").status_code == 204


def test_names_that_cannot_be_are_not_found(olga, job):
    browser, odd = signed_in(olga), "a%00b"
    for path in (
        f"jobs/{job.label}/apps/{odd}/guests/gus",
        f"jobs/{job.label}/apps/web/guests/{odd}",
    ):
        assert browser.put(f"/api/v1/{path}").status_code == 404
        assert browser.delete(f"/api/v1/{path}").status_code == 404
    assert browser.delete(f"/api/v1/app-tokens/{odd}").status_code == 404
    assert browser.post(f"/jobs/{job.label}/apps/{odd}/open").status_code == 404
