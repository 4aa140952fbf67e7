"""A typed client made from the served schema works: it submits, reads, lists and cancels a job."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from django.core.cache import cache
from django.test import Client

from portal.accounts.models import Project, TokenScope
from portal.accounts.services import MAX_TOKEN_TTL, token_create
from tests.support.rows import a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's source, generated once."""
    folder = tmp_path_factory.mktemp("client")
    schema = folder / "schema.yaml"
    schema.write_bytes(Client().get("/api/v1/schema/").content)
    settings = folder / "settings.yaml"
    # The generator knows no zip: it is bytes.
    settings.write_text(
        "package_name_override: tessera_client\npost_hooks: []\n"
        "content_type_overrides: {application/zip: application/octet-stream}\n"
    )
    arguments = ["generate", "--path", schema, "--meta", "none"]
    arguments += ["--output-path", folder / "tessera_client"]
    program = "from openapi_python_client.cli import app; app()"
    found = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments), "--config", str(settings)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr + found.stdout
    assert "WARNING" not in found.stdout + found.stderr, found.stdout + found.stderr
    return folder


class Through(httpx.BaseTransport):
    """httpx into Django's test client."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        names = {name: value for name, value in request.headers.items() if name != "host"}
        answer = Client().generic(
            request.method,
            request.url.raw_path.decode(),
            request.read(),
            content_type=request.headers.get("content-type", "application/json"),
            headers=names,
        )
        return httpx.Response(
            answer.status_code, headers=dict(answer.items()), content=answer.content
        )


@pytest.fixture
def client(made: Path, monkeypatch: pytest.MonkeyPatch):
    cache.clear()
    a_node("n1")
    olga = a_user("olga")
    a_project("vision", olga)
    _, token = token_create(user=olga, name="t", scope=TokenScope.WRITE, ttl=MAX_TOKEN_TTL)
    monkeypatch.syspath_prepend(str(made))
    module = importlib.import_module("tessera_client")
    client = module.AuthenticatedClient(base_url="http://testserver", token=token)
    client.set_httpx_client(
        httpx.Client(
            base_url="http://testserver",
            transport=Through(),
            headers={"Authorization": f"Bearer {token}"},
        )
    )
    return client


def operation(name: str, noun: str = "jobs"):
    return importlib.import_module(f"tessera_client.api.{noun}.{name}")


def test_the_typed_client_submits_reads_lists_and_cancels_a_job(client):
    models = importlib.import_module("tessera_client.models")
    body = models.JobSubmitRequest.from_dict(a_request(Project.objects.get(slug="vision")))
    submitted = operation("job_submit").sync_detailed(client=client, body=body)
    assert submitted.status_code == 201
    job = submitted.parsed
    assert isinstance(job, models.SubmittedJob) and job.status.value == "queued"
    shown = operation("job_show").sync(job.id, client=client)
    assert isinstance(shown, models.Job) and shown.uid == job.uid
    listed = operation("job_list").sync(client=client, name="sum")
    assert [row.id for row in listed.results] == [job.id]
    ended = operation("job_cancel").sync(job.id, client=client)
    assert ended.status == models.JobStatus.CANCELLED


def test_the_typed_client_reads_a_problem(client):
    models = importlib.import_module("tessera_client.models")
    refused = operation("job_show").sync_detailed("J-999999", client=client)
    assert refused.status_code == 404
    assert isinstance(refused.parsed, models.Problem) and refused.parsed.code == "not_found"


def test_the_typed_client_reads_who_it_is(client):
    mine = operation("me", "me").sync(client=client)
    assert (mine.user, mine.token.scope, mine.projects[0].slug) == ("olga", "write", "vision")
    assert mine.projects[0].quotas[0].limit_units > 0


def test_the_typed_client_keeps_a_template_from_the_version_it_read(client):
    models = importlib.import_module("tessera_client.models")
    request = a_request(Project.objects.get(slug="vision"))
    wanted = {"name": "Train", "project": "vision", "request": request}
    save = operation("template_save", "templates").sync_detailed
    body = models.TemplateCreateRequest.from_dict(wanted)
    made, again = (save(client=client, body=body, idempotency_key="k-1") for _ in range(2))
    assert (made.status_code, again.parsed) == (201, made.parsed)
    listed = operation("template_list", "templates").sync(client=client, project="vision")
    assert [row.name for row in listed.results] == ["Train"]
    change = operation("template_change", "templates").sync_detailed
    args = (str(made.parsed.id),)
    better = models.PatchedTemplateChange.from_dict({"description": "better"})
    first = change(*args, client=client, body=better, if_match='"1"')
    assert (first.status_code, first.headers["ETag"]) == (200, '"2"')
    stale = change(*args, client=client, body=better, if_match='"1"')
    assert isinstance(stale.parsed, models.Problem) and stale.status_code == 412
    assert stale.parsed.current["version"] == 2


def test_the_typed_client_reads_a_projects_images(client):
    images = operation("project_images", "projects").sync("vision", client=client)
    assert (str(images.rule), images.patterns, images.version) == ("any", [], 0)
