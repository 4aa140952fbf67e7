"""Callers and rows for the tests of permissions: a project, its people, and others."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ApiToken, Membership, Project, Role, TokenScope, User
from portal.accounts.services import token_create
from portal.api.urls import urlpatterns
from portal.apps.models import AppGuest
from portal.apps.tokens import app_token_create
from portal.arrays.models import JobArray
from portal.catalogue.models import Template
from portal.inventory.credentials import digest_of, new_access_token
from portal.inventory.models import DisputedClaim, Node
from portal.job_secrets.services import secret_set
from portal.job_services.models import JobService
from portal.jobs.models import Job
from portal.quotas.models import LimitRequest, Quota
from portal.registries.services import registry_set
from portal.volumes.models import Volume
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.secrets import seal
from portal.what_if.models import WhatIf
from tests.support.file_rows import a_code_tree
from tests.support.rows import a_job, a_node, a_project, a_request, a_user

# Callers with an account, from the least to the most rights.
PEOPLE = ("viewer", "member", "foreign", "project_admin", "platform_admin")
# Callers without a valid account; all get the same refusal.
OUTSIDE = ("anonymous", "node", "expired")
KINDS = (*PEOPLE, *OUTSIDE)


@dataclass
class World:
    """The member `olga` owns every row that has an owner."""

    project: Project
    job: Job
    token: ApiToken
    node: Node
    people: dict[str, User]
    names: dict[str, str] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)

    def address(self, pattern: str) -> str:
        """The pattern of a route with the rows of this world in it."""
        for name, value in self.names.items():
            pattern = re.sub(rf"<(?:\w+:)?{name}>", value, pattern)
        assert "<" not in pattern, f"{pattern}: a part that the matrix cannot fill"
        return "/" + pattern.lstrip("/")

    def client(self, kind: str) -> Client:
        client = Client(headers=self.headers.get(kind, {}))
        if kind in self.people:
            client.force_login(self.people[kind])
        return client

    def status(self, kind: str, method: str, address: str, body: object, **headers: str) -> int:
        """The status of a call, rolled back afterwards so that every caller finds the same rows."""
        with transaction.atomic():
            point = transaction.savepoint()
            found = self.status_kept(kind, method, address, body, **headers)
            transaction.savepoint_rollback(point)
        return found

    def status_kept(
        self, kind: str, method: str, address: str, body: object, **headers: str
    ) -> int:
        """The same, for what gives its database connection back: nothing is undone."""
        options: dict[str, Any] = {"headers": headers}
        if method != "get":
            is_form = headers.get("X-Form") == "1"
            options |= {} if is_form else {"content_type": "application/json"}
            options["data"] = body if body is not None else {}
        return int(getattr(self.client(kind), method)(address, **options).status_code)


def a_world() -> World:
    people = {
        "viewer": a_user("vera"),
        "member": a_user("olga"),
        "foreign": a_user("ott"),
        "project_admin": a_user("ada"),
        "platform_admin": a_user("root", is_superuser=True, is_staff=True),
    }
    olga = people["member"]
    project = a_project("vision", olga)
    Membership.objects.create(project=project, user=people["viewer"], role=Role.VIEWER)
    Membership.objects.create(project=project, user=people["project_admin"], role=Role.ADMIN)
    a_project("speech", people["foreign"], role=Role.ADMIN)
    Quota.objects.create(project=project, user=olga, limit_units=56_000, guard_units=56_000)
    node = a_node("n1").row
    secret = new_access_token(node.pk)
    later = timezone.now() + timedelta(hours=1)
    Node.objects.filter(pk=node.pk).update(token_digest=digest_of(secret), token_expires_at=later)
    token, _ = token_create(user=olga, name="t", scope=TokenScope.READ, ttl=timedelta(days=1))
    old, text = token_create(user=olga, name="old", scope=TokenScope.ADMIN, ttl=timedelta(days=1))
    ApiToken.objects.filter(pk=old.pk).update(expiry=timezone.now() - timedelta(seconds=1))
    job = a_job(olga, project, apps=["web:8080"])
    AppGuest.objects.create(job=job, app="web", user=a_user("gus"))
    day = timedelta(days=1)
    app_token, _ = app_token_create(
        user=olga, name="client", project=project, job=job, app="web", ttl=day
    )
    hook = Endpoint.objects.create(
        owner=olga, name="ci", url="https://ci.example.org/", sealed=seal("s")
    )
    delivery = Delivery.objects.create(endpoint=hook, kind="test", body="{}")
    volume = Volume.objects.create(name="imagenet", root="datasets", subpath="olga")
    volume.projects.add(project)
    template = Template.objects.create(
        project=project, name="ready", request=a_request(project), author="olga"
    )
    secret_set(actor=olga, name="HF_TOKEN", value="of olga alone")
    secret_set(actor=people["project_admin"], project=project, name="HF_TOKEN", value="of vision")
    signed = {"address": "ghcr.io/team", "user": "robot", "password": "of vision alone"}
    registry_set(actor=people["project_admin"], project=project, **signed)
    what_if = WhatIf.objects.create(requester=people["platform_admin"], days=1, changes=[])
    claim = DisputedClaim.objects.create(
        gpu=node.gpus.get(),
        claimant=Node.objects.create(name="second-reporter"),
        claimed_at=timezone.now(),
    )
    asked = LimitRequest.objects.create(
        job=job, project=project, asker=olga, code="budget", created_at=timezone.now()
    )
    array = JobArray.objects.create(
        project=project, owner=olga, name="seeds", request=a_request(project, array="0-1"), size=2
    )
    service = JobService.objects.create(
        project=project, owner=olga, name="llm", request=a_request(project), max_copies=1
    )
    code = a_code_tree(project.pk, {"train.py": b"print()"}, "olga")
    names = {
        "app": "web",
        "guest": "gus",
        "app_token": app_token.key,
        "tree": str(code.pk),
        "sha256": "a" * 64,
        "claim": str(claim.pk),
        # There is none.
        "measurement": "1",
        "limit_request": str(asked.pk),
        "array": array.label,
        "service": service.label,
        "job": job.label,
        "ref": job.label,
        "node": node.name,
        "gpu": f"GPU-{node.name}-0",
        "project": project.slug,
        "slug": project.slug,
        "user": olga.username,
        "token": token.token_key,
        "key": token.token_key,
        "what_if": str(what_if.pk),
        "secret": "HF_TOKEN",
        "registry": "ghcr.io/team",
        "webhook": str(hook.uid),
        "delivery": str(delivery.pk),
        "template": str(template.pk),
        "volume": volume.name,
        "name": node.name,
        "pk": "1",
        "uidb64": "MQ",
        "number": str(what_if.pk),
    }
    headers = {
        "node": {"Authorization": f"Agent {secret}"},
        "expired": {"Authorization": f"Bearer {text}"},
    }
    return World(project, job, token, node, people, names, headers)


METHODS = ("get", "post", "put", "patch", "delete")


OPEN = {"schema", "docs"}


NO_MATRIX = {"no-route"}


def offered() -> set[tuple[str, str]]:
    routes = [p for p in urlpatterns if p.name not in OPEN | NO_MATRIX]
    return {(p.name, m) for p in routes for m in METHODS if hasattr(p.callback.view_class, m)}
