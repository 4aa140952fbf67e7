"""Whatever is sent to REST, in shape or out of it, the answer is one that the schema knows, and
nobody is shown what is not theirs. Two users: one who sees and may all, one of another project.

The same cases are made on every run.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pytest_django.plugin import DjangoDbBlocker
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from portal.accounts.models import Membership, Project, Role, TokenScope, User
from portal.accounts.services import token_create
from portal.api.jobs import views as job_views
from portal.api.protocol.throttling import CallThrottle, SubmitThrottle
from portal.api.urls import urlpatterns
from portal.apps.tokens import app_token_create
from portal.arrays.models import JobArray
from portal.catalogue.models import Template
from portal.inventory.models import DisputedClaim, Gpu
from portal.job_secrets.services import secret_set
from portal.job_services.models import JobService
from portal.node_pairs.models import PairMeasurement
from portal.quotas.models import LimitRequest
from portal.registries.services import registry_set
from portal.volumes.models import Volume
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.secrets import seal
from portal.what_if.models import WhatIf
from tests.support.examples import share_of
from tests.support.file_rows import a_code_tree
from tests.support.module_rows import module_rows
from tests.support.rights import offered
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db
EXAMPLES = 8
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# A stream has no end to check: test_api_watch follows it.
STREAMS = {"event-stream"}
# No request is made with these words; who is of another project must never read them.
HIDDEN = ("hidden-7731", "holda-7731", "secret-job-7731", "secret-template", "secret-hook")


@dataclass
class Two:
    """The parts of addresses that exist, and each user's token."""

    names: dict[str, str]
    wide: str
    foreign: str
    schema: Any


@pytest.fixture(scope="module")
def schema() -> Any:
    """As it is served, once for all; no test has a database open then."""
    request_started.disconnect(close_old_connections)
    try:
        return schemathesis.openapi.from_wsgi("/api/v1/schema/", get_wsgi_application())
    finally:
        request_started.connect(close_old_connections)


@pytest.fixture(scope="module")
def pair(schema: Any, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Two]:
    with module_rows(django_db_blocker):
        yield a_pair(schema)


@pytest.fixture
def two(pair: Two, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    cache.clear()
    monkeypatch.setattr(CallThrottle, "rate", "1000000/min", raising=False)
    monkeypatch.setattr(SubmitThrottle, "rate", "1000000/min", raising=False)
    monkeypatch.setattr(job_views, "wait_for_event", lambda *_: None)
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    # The test's transaction lives in this connection.
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield pair
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


def a_pair(schema: Any) -> Two:
    holda = a_user("holda-7731", is_superuser=True)
    ott = a_user("ott")
    hidden = a_project("hidden-7731", holda, role=Role.ADMIN)
    a_project("speech", ott, role=Role.ADMIN)
    node = a_node("n1")
    running = a_job(holda, hidden, name="secret-job-7731")
    settle(node)
    token, wide = token_create(user=holda, name="t", scope=TokenScope.ADMIN, ttl=timedelta(days=1))
    _, foreign = token_create(user=ott, name="t", scope=TokenScope.ADMIN, ttl=timedelta(days=1))
    (gpu,) = Gpu.objects.all()
    other = a_node("n2").row
    claim = DisputedClaim.objects.create(gpu=gpu, claimant=other, claimed_at=timezone.now())
    measurement = PairMeasurement.objects.create(
        first=node.row, second=other, job=running, actor=holda.username
    )
    asked = LimitRequest.objects.create(
        job=running, project=hidden, asker=holda, code="budget", created_at=timezone.now()
    )
    names = _rows(holda, hidden) | {
        "limit_request": str(asked.pk),
        "claim": str(claim.pk),
        "measurement": str(measurement.pk),
        "job": running.label,
        "node": "n1",
        "gpu": node.uuid(0),
        "project": hidden.slug,
        "secret": "HIDDEN_7731",
        "registry": "ghcr.io/hidden-7731",
        "user": holda.username,
        "token": token.token_key,
    }
    return Two(names, wide, foreign, schema)


def _rows(owner: User, project: Project) -> dict[str, str]:
    secret_set(actor=owner, name="HIDDEN_7731", value="of holda alone")
    secret_set(actor=owner, project=project, name="HIDDEN_7731", value="of hidden alone")
    signed = {"address": "ghcr.io/hidden-7731", "user": "robot", "password": "of hidden alone"}
    registry_set(actor=owner, project=project, **signed)
    assert Membership.objects.filter(user=owner, project=project).exists()
    hook = Endpoint.objects.create(
        owner=owner, name="secret-hook", url="https://ci.example.org/", sealed=seal("s")
    )
    template = Template.objects.create(
        project=project,
        name="secret-template",
        request=a_request(project),
        author=owner.username,
    )
    array = JobArray.objects.create(
        project=project, owner=owner, name="secret-job-7731", request=a_request(project), size=2
    )
    app_token, _ = app_token_create(
        user=owner, name="t", project=project, job=None, app="", ttl=timedelta(days=1)
    )
    service = JobService.objects.create(
        project=project, owner=owner, name="secret-job-7731", request=a_request(project)
    )
    volume = Volume.objects.create(name="secret-job-7731", root="datasets", subpath="a")
    volume.projects.add(project)
    code = a_code_tree(project.pk, {"secret-job-7731.py": b"print()"}, owner.username)
    return {
        "array": array.label,
        "app_token": app_token.key,
        "service": service.label,
        "volume": volume.name,
        "tree": str(code.pk),
        "sha256": "a" * 64,
        "webhook": str(hook.uid),
        "delivery": str(Delivery.objects.create(endpoint=hook, kind="test", body="{}").pk),
        "template": str(template.pk),
        "what_if": str(WhatIf.objects.create(requester=owner, days=1, changes=[]).pk),
    }


def operation_of(two: Two, route: str, method: str) -> Any:
    (pattern,) = [str(p.pattern) for p in urlpatterns if p.name == route]
    path = "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern)
    return two.schema[path][method.upper()]


ROUTES = sorted(row for row in offered() if row[0] not in STREAMS)


@pytest.mark.hypothesis
@pytest.mark.parametrize(("route", "method"), ROUTES, ids=str)
def test_every_answer_is_in_the_schema_and_shows_nothing_foreign(two: Two, route: str, method: str):
    operation = operation_of(two, route, method)

    @settings(
        max_examples=share_of(EXAMPLES),
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), is_there=st.booleans())
    def ask(case: Any, is_there: bool) -> None:
        if is_there:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = two.names[name]
        for token in (two.wide, two.foreign):
            with transaction.atomic():
                point = transaction.savepoint()
                answer = case.call(headers={"Authorization": f"Bearer {token}"})
                transaction.savepoint_rollback(point)
            assert answer.status_code != 429
            case.validate_response(answer, checks=CHECKS)
            if token is two.foreign:
                _require_nothing_hidden(case, answer.text)

    ask()


def _require_nothing_hidden(case: Any, text: str) -> None:
    """What the caller sent may come back: the address stands in every problem."""
    sent = f"{case.path_parameters} {case.query} {case.body}"
    leaked = [word for word in HIDDEN if word in text and word not in sent]
    assert not leaked, f"{leaked} shown to another project"
