"""Who calls, what they may do where, what they hold, and until when their token works."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Project, Role, TokenScope, User
from portal.accounts.services import token_create
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.quotas.models import Quota
from tests.support.rows import a_project, a_user

pytestmark = pytest.mark.django_db
ME = "/api/v1/me"


@pytest.fixture
def olga() -> User:
    cache.clear()
    return a_user("olga")


def of(user: User, scope: TokenScope = TokenScope.READ) -> dict:
    """What somebody reads who comes with a token."""
    _, text = token_create(user=user, name="laptop", scope=scope, ttl=timedelta(days=3))
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {text}")
    answer = client.get(ME)
    assert answer.status_code == 200 and text not in answer.content.decode()
    return answer.json()


def a_quota(project: Project, user: User | None, units: int) -> Quota:
    return Quota.objects.create(
        project=project, user=user, limit_units=units, guard_units=units, model="H200"
    )


def test_one_reads_ones_projects_with_the_role_in_each(olga):
    a_project("vision", olga, role=Role.ADMIN)
    speech = a_project("speech", a_user("ott"))
    Membership.objects.create(project=speech, user=olga, role=Role.VIEWER)
    a_project("others", a_user("paul"))
    me = of(olga)
    assert (me["user"], me["is_platform_admin"]) == ("olga", False)
    told = [(row["slug"], row["role"], row["may_submit"]) for row in me["projects"]]
    assert told == [("speech", "viewer", False), ("vision", "admin", True)]


def test_the_quotas_are_those_that_count_for_oneself(olga):
    ott = a_user("ott")
    vision = a_project("vision", olga, ott, role=Role.ADMIN)
    Quota.objects.all().delete()
    for user, units in ((None, 9), (olga, 7), (ott, 5)):
        a_quota(vision, user, units)
    (row,) = of(olga)["projects"]
    assert [(q["user"], q["limit_units"]) for q in row["quotas"]] == [(None, 9), ("olga", 7)]


def test_an_admin_of_the_platform_reads_only_their_own_projects(olga):
    a_project("vision", olga)
    me = of(a_user("root", is_superuser=True))
    assert (me["is_platform_admin"], me["projects"]) == (True, [])


def test_the_token_is_told_and_a_browser_has_none(olga):
    token = of(olga, TokenScope.WRITE)["token"]
    assert (token["name"], token["scope"]) == ("laptop", "write")
    assert token["expires_at"] > token["created_at"]
    client = APIClient()
    client.force_login(olga)
    assert client.get(ME).json()["token"] is None


def test_many_projects_take_no_more_queries(olga):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(ME)
        return len(seen)

    client = APIClient()
    client.force_login(olga)
    a_project("p0", olga)
    queries()  # the first one reads the snapshot of the cluster
    one = queries()
    for number in range(1, 6):
        a_project(f"p{number}", olga)
    assert queries() == one


def test_the_cluster_is_not_read_where_nothing_is_promised(olga):
    """What is promised to a job in the queue needs the pass; without one, no change of the cluster
    makes the answer dearer."""
    vision = a_project("vision", olga)
    client = APIClient()
    client.force_login(olga)
    client.get(ME)
    with CaptureQueriesContext(connection) as before:
        client.get(ME)
    audit_record(actor="olga", action=AuditAction.USER_CHANGE, noun="user", noun_id="olga")
    with CaptureQueriesContext(connection) as after:
        (row,) = client.get(ME).json()["projects"]
    assert row["slug"] == vision.slug and len(after) == len(before)
    with CaptureQueriesContext(connection) as quotas:
        client.get("/api/v1/quotas")
    assert len(quotas) <= len(after)
