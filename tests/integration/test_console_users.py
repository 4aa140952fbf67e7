"""Accounts in the console: found, added with a link for the first password, let go, and every
change in the history."""

import re
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from portal.accounts.models import ApiToken, Membership, Role, TokenScope, User
from portal.accounts.people import platform_admin_set, sign_in_link_create, user_deactivate
from portal.accounts.services import membership_remove, membership_set, token_create
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.files.limits import stored_limits
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db
LINK = re.compile(r'value="http://testserver(/welcome/[^"]+)"')
PASSWORD = "quite-Long-enough-77"
SIGN_IN = "/sign-in/"


@pytest.fixture
def boss() -> User:
    return a_user("root", is_superuser=True, is_staff=True)


@pytest.fixture
def root(boss) -> Client:
    client = Client()
    client.force_login(boss)
    return client


def link_in(answer) -> str:
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    found = LINK.search(answer.content.decode())
    assert found
    return found[1]


def set_password(link: str, password: str = PASSWORD):
    """As its owner, in a browser of their own."""
    client = Client()
    form = client.get(link, follow=True)
    assert "You sign in as" in form.content.decode()
    body = {"new_password1": password, "new_password2": password}
    return client.post(form.redirect_chain[-1][0], body, follow=True)


def signs_in(name: str, password: str = PASSWORD) -> bool:
    client = Client()
    client.post(SIGN_IN, {"username": name, "password": password})
    return client.get("/").status_code == 200


def test_a_new_user_sets_a_password_by_the_link_and_finds_their_project(root):
    a_project("vision")
    body = {"username": "ada", "full_name": "Ada L.", "email": "ada@example.org"}
    answer = root.post("/console/users/new", body | {"project": "vision", "role": "member"})
    link = link_in(answer)
    assert not signs_in("ada", "")
    assert "Your password is set" in set_password(link).content.decode()
    assert signs_in("ada")
    assert "This link is void" in Client().get(link, follow=True).content.decode(), "it works once"
    row = Membership.objects.get(user__username="ada")
    assert (row.project.slug, row.role) == ("vision", "member")
    lines = AuditEntry.objects.filter(noun="user", noun_id="ada")
    by_root = {line.action for line in lines if line.actor == "root"}
    assert {"user_add", "sign_in_link_create"} <= by_root
    assert link.split("/")[-2] not in str(list(lines.values_list("before", "after")))


def test_what_cannot_be_added_is_said_at_its_field_and_nothing_is_kept(root):
    a_user("Ada")
    for body, name in (
        ({"username": ""}, "username"),
        ({"username": "\N{CYRILLIC SMALL LETTER A}da"}, "username"),
        ({"username": "ada"}, "username"),
        ({"username": "bob", "email": "nobody"}, "email"),
        ({"username": "bob", "full_name": "a\N{RIGHT-TO-LEFT OVERRIDE}b"}, "email"),
    ):
        answer = root.post("/console/users/new", body)
        assert answer.status_code in (400, 409)
        assert f'aria-describedby="{name}-error"' in answer.content.decode(), body
    assert User.objects.count() == 2


def test_the_list_is_searched_and_filtered(root):
    ada = a_user("ada", email="ada@example.org", first_name="Ada L.")
    a_user("gone", is_active=False)
    a_project("vision", ada)

    def names(query: str) -> set[str]:
        text = root.get(f"/console/users/?{query}").content.decode()
        return set(re.findall(r'href="/console/users/(\w+)/"', text))

    assert names("") == {"root", "ada", "gone"}
    assert names("q=EXAMPLE.org") == names("q=ada l") == {"ada"}
    assert names("state=inactive") == {"gone"}
    assert names("state=admins") == {"root"}
    assert names("state=alone") == {"root"}
    assert names("q=nobody") == set()


def test_the_page_before_a_deactivation_says_what_ends_and_all_of_it_ends(root):
    ada = a_user("ada")
    token_create(user=ada, name="ci", scope=TokenScope.READ, ttl=timedelta(days=1))
    browser = Client()
    browser.post(SIGN_IN, {"username": "ada", "password": "pw"})
    assert browser.get("/").status_code == 200
    page = root.get("/console/users/ada/deactivate").content.decode()
    assert "1 browser is signed out." in page
    assert "1 API token is deleted for good." in page
    root.post("/console/users/ada/deactivate")
    assert browser.get("/").status_code == 302
    assert not ApiToken.objects.exists()
    assert not signs_in("ada", "pw")
    line = AuditEntry.objects.get(action="user_change", noun_id="ada")
    assert line.after == {"active": False, "sessions": 1, "tokens": 1}
    root.post("/console/users/ada/activate")
    assert signs_in("ada", "pw")


def test_no_link_opens_a_deactivated_account(root, boss):
    ada = a_user("ada")
    link = link_in(root.post("/console/users/ada/link"))
    user_deactivate(user=ada, actor="root")
    assert "This link is void" in Client().get(link, follow=True).content.decode()
    with pytest.raises(Refused, match="Activate the account first"):
        sign_in_link_create(user=ada, actor="root")


def test_a_new_password_by_link_signs_out_whoever_had_the_old_one(root):
    a_user("ada")
    browser = Client()
    browser.post(SIGN_IN, {"username": "ada", "password": "pw"})
    link = link_in(root.post("/console/users/ada/link"))
    set_password(link)
    assert browser.get("/").status_code == 302
    assert not signs_in("ada", "pw")


def test_nobody_locks_themselves_out_nor_everybody(root, boss):
    for body in ("deactivate", "rights"):
        page = root.post(f"/console/users/root/{body}", {"admin": "0"}, follow=True)
        assert "This is your own account" in page.content.decode()
    with pytest.raises(Refused, match="needs a platform admin"):
        platform_admin_set(user=boss, is_platform_admin=False, actor="system")
    boss.refresh_from_db()
    assert boss.is_platform_admin


def test_rights_and_second_steps_change_with_an_audit_line_each(root):
    ada = a_user("ada")
    Authenticator.objects.create(user=ada, type=Authenticator.Type.TOTP, data={"secret": "x"})
    assert "Authenticator app" in root.get("/console/users/ada/").content.decode()
    root.post("/console/users/ada/second-steps")
    assert not Authenticator.objects.exists()
    root.post("/console/users/ada/rights", {"admin": "1"})
    ada.refresh_from_db()
    assert ada.is_platform_admin
    assert ada.is_staff
    root.post("/console/users/ada/rights", {"admin": "0"})
    ada.refresh_from_db()
    assert not ada.is_platform_admin
    actions = list(AuditEntry.objects.filter(actor="root", noun_id="ada").values_list("action"))
    assert sorted(actions) == [("second_steps_remove",), ("user_change",), ("user_change",)]


def test_an_admins_own_second_steps_do_not_end_without_one(root, boss):
    Authenticator.objects.create(user=boss, type=Authenticator.Type.TOTP, data={"secret": "x"})
    assert "Remove second steps" not in root.get("/console/users/root/").content.decode()
    assert root.post("/console/users/root/second-steps").url == "/account/"
    assert Authenticator.objects.exists()


def test_a_project_keeps_an_admin_who_may_sign_in(boss):
    ada, gone = a_user("ada"), a_user("gone", is_active=False)
    project = a_project("vision", ada, role=Role.ADMIN)
    membership_set(project=project, user=gone, role=Role.ADMIN, actor="root")
    with pytest.raises(Refused, match="needs an admin"):
        membership_remove(project=project, user=ada, actor="root")
    membership_remove(project=project, user=gone, actor="root")
    assert project.memberships.get().user == ada


def test_a_project_that_went_away_meanwhile_is_not_passed_over(root):
    answer = root.post("/console/users/new", {"username": "ada", "project": "gone"})
    assert answer.status_code == 404
    assert 'aria-describedby="project-error"' in answer.content.decode()
    assert not User.objects.filter(username="ada").exists()


def test_a_project_gets_its_own_limits_of_files_and_gives_them_up_again(root, boss):
    project = a_project("vision", boss)
    form = {"name": project.name, "weight": "1", "max_running": "0", "max_pending": "0"}
    page = root.get("/projects/vision/settings").content.decode()
    assert "100 GiB and 30 days" in page
    own = form | {"stored_gib": "5", "kept_days": "0"}
    assert root.post("/projects/vision/settings", own).status_code == 302
    limits = stored_limits(project.pk)
    assert (limits.stored_gib, limits.kept_days) == (5, 0)
    assert "5.0\N{NO-BREAK SPACE}GB" in root.get("/projects/vision/").content.decode()
    assert 'value="5"' in root.get("/projects/vision/settings").content.decode()
    wrong = root.post("/projects/vision/settings", form | {"stored_gib": "-1"})
    assert wrong.status_code == 400 and "stored_gib-error" in wrong.content.decode()
    root.post("/projects/vision/settings", form)
    assert stored_limits(project.pk).stored_gib == 100
    changes = AuditEntry.objects.filter(action="project_storage_set").order_by("id")
    assert [change.after["stored_gib"] for change in changes] == [5, None]


def test_a_project_is_renamed_shared_and_archived_with_what_that_means(root, boss):
    project = a_project("vision", boss)
    a_node("n1")
    page = root.get("/projects/vision/settings").content.decode()
    assert "Jobs go on: 0 running, 0 waiting." in page
    form = {"name": "Computer vision", "weight": "3", "max_running": "0", "max_pending": "20"}
    form |= {"approval_units": "1/2", "approval_seconds": "12", "approval_unit_seconds": ""}
    assert root.post("/projects/vision/settings", form).status_code == 302
    project.refresh_from_db()
    assert (project.name, project.weight, project.max_pending) == ("Computer vision", 3, 20)
    assert (project.approval_units, project.approval_seconds) == (28_000, 12 * 3600)
    assert project.approval_unit_seconds is None
    assert 'value="0.5"' in root.get("/projects/vision/settings").content.decode()
    wrong = root.post("/projects/vision/settings", form | {"weight": "0"})
    assert wrong.status_code == 400
    assert 'aria-describedby="weight-error' in wrong.content.decode()
    root.post("/projects/vision/archive", {"archived": "1"})
    assert "You are not in a project yet" in root.get("/request/").content.decode()
    root.post("/projects/vision/archive", {"archived": "0"})
    assert "You are not in a project yet" not in root.get("/request/").content.decode()
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["project_change", "project_share", "project_change", "project_change"]
