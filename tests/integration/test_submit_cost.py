"""A budget for what one submit asks of the database, whatever the size of the cluster."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from portal.accounts.models import ApiToken
from portal.jobs.models import Job
from tests.support.rows import a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db

# Token, version of the inventory (as CPU and memory are left out), membership with that version,
# project and image policy, quotas, job, its two events.
BUDGET = 6
# With a key: looked up, claimed, and the response stored.
WITH_A_KEY = BUDGET + 3
TRANSACTION_WORDS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def submit(client, project, **headers):
    body = a_request(project)
    del body["cpu"], body["memory"]
    with CaptureQueriesContext(connection) as seen:
        answer = client.post("/api/v1/jobs", body, format="json", **headers)
    assert answer.status_code == 201, answer.json()
    asked = [each["sql"] for each in seen if not each["sql"].startswith(TRANSACTION_WORDS)]
    return answer.json(), asked


def test_a_submit_asks_little_and_no_more_on_a_larger_cluster(alice, vision):
    _, secret = ApiToken.objects.create(user=alice, name="t")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    for name in ("n1", "n2", "n3"):
        a_node(name, gpus=8)
        submit(client, vision)  # reads the inventory, and marks the token as used
        body, asked = submit(client, vision)
        assert len(asked) <= BUDGET, "\n".join(asked)
        _, with_key = submit(client, vision, HTTP_IDEMPOTENCY_KEY=f"of {name}")
        assert len(with_key) <= WITH_A_KEY, "\n".join(with_key)
        assert not [sql for sql in asked if '"inventory_gpu"' in sql or '"inventory_node"' in sql]
    # What it answers from the rows in hand is what is stored.
    shown = client.get(body["links"]["self"]).json()
    assert body.pop("warnings") == []
    assert shown == body
    assert shown["status"] == "queued"
    assert Job.objects.count() == 9
