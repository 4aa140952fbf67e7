"""The whole product, watched: logs that follow one submit, without secrets, and metrics of all."""

import base64
import contextlib
import json
import os
import re
import secrets
import signal
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from prometheus_client.parser import text_string_to_metric_families

from portal.settings.servers import REQUEST_CONNECTIONS
from tests.environment.programs import free_port
from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]
NODE = "node-a"
REQUEST = "follow-me-4711"
# Of the settings, as an operator would choose them.
METRICS_TOKEN = "metrics-" + secrets.token_hex(16)
SECRET_KEY = "key-" + secrets.token_hex(30)
# What users and strangers send.
PLANTED = {kind: f"planted{kind}{secrets.token_hex(12)}" for kind in ("env", "token", "header")}
PLANTED |= {kind: f"planted{kind}{secrets.token_hex(12)}" for kind in ("query", "basic", "form")}


@pytest.fixture(scope="module")
def stack(tmp_path_factory, postgres_server, redis_server):
    extra = {
        "TESSERA_LOG_FORMAT": "json",
        "TESSERA_SECRET_KEY": SECRET_KEY,
        "TESSERA_METRICS_TOKEN": METRICS_TOKEN,
        "TESSERA_METRICS_LISTEN": str(free_port()),
    }
    running = Stack(
        var=tmp_path_factory.mktemp("watched"),
        database_url=postgres_server.create_database(migrated=True),
        redis_url=redis_server.url(),
        nodes=(NODE,),
        extra_env=extra,
    )
    with running:
        # It plans once, to compile, before it takes tasks.
        until(lambda: " ready." in running.log("worker"), what="the worker")
        yield running


@pytest.fixture(scope="module")
def job(stack):
    """A job that ran to its end, submitted with a request id; and calls with secrets in them."""
    body = {
        "project": "vision",
        "name": "sum",
        "image": "tessera-example:latest",
        "command": ["python3", "-c", "print('hello')"],
        "device": {"mig": "1g.18gb"},
        "cpu": "100m",
        "memory": "128MiB",
        "time_limit": "10m",
        "env": {"API_PASSWORD": PLANTED["env"]},
    }
    headers = {
        "Authorization": f"Bearer {stack.seeded['token']}",
        "X-Request-Id": REQUEST,
        "X-Api-Key": PLANTED["header"],
        "Cookie": f"sessionid={PLANTED['header']}",
    }
    answer = stack.http.post(f"{stack.url}/api/v1/jobs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    send_secrets(stack)
    return stack.until_status(answer.json()["id"], "succeeded")["id"]


def send_secrets(stack):
    """Calls that are refused, each with a secret that a careless line would have."""
    basic = base64.b64encode(f"olga:{PLANTED['basic']}".encode()).decode()
    for value in (f"Bearer tsr_{PLANTED['token']}", f"Basic {basic}", f"Agent {PLANTED['token']}"):
        for path in ("/api/v1/jobs", "/agent/v1/sync", "/metrics"):
            url = f"{stack.url}{path}?code={PLANTED['query']}"
            assert stack.http.post(url, headers={"Authorization": value}, json={}).is_error
    stack.http.post(f"{stack.url}/sign-in/", data={"login": "o", "password": PLANTED["form"]})
    stack.http.get(f"{stack.url}/no/such/page?code={PLANTED['query']}")


def lines(stack):
    """Every line of every process as (process, fields); whatever is no JSON object fails."""
    found = []
    for name in stack.running:
        for line in stack.log(name).splitlines():
            # Celery's banner is printed before its log begins.
            if line.startswith("{") or name != "worker":
                found.append((name, json.loads(line)))
    return found


def scrape(stack, url, token=METRICS_TOKEN):
    answer = stack.http.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def is_all_up(found):
    return found["tessera_database_up",] == found["tessera_broker_up",] == 1


def worker_url(stack):
    return f"http://127.0.0.1:{stack.extra_env['TESSERA_METRICS_LISTEN']}"


def test_one_search_follows_a_submit_to_the_start_of_its_container(stack, job):
    label = job
    followed = [(name, line) for name, line in lines(stack) if line.get("request_id") == REQUEST]
    steps = [(name, line["event"]) for name, line in followed]
    in_order = [
        ("web", f"{label} submitted -> queued"),
        ("worker", f"{label} queued -> placed"),
        (NODE, "replica_prepared"),
        (NODE, "replica_started"),
        ("web", f"{label} running -> succeeded"),
    ]
    assert [step for step in in_order if step not in steps] == []
    times = [
        next(line["at"] for name, line in followed if (name, line["event"]) == step)
        for step in in_order
    ]
    assert times == sorted(times)
    (access,) = [line for name, line in followed if line["event"] == "POST api:jobs 201"]
    assert access["user"].isdecimal() and access["logger"] == "portal.requests"
    (placed,) = [line for _, line in followed if line["event"].endswith("queued -> placed")]
    assert placed["task"] == "scheduler.tasks.plan" and placed["job"] == label
    assert len(placed["task_id"]) == 36
    started = [line for name, line in followed if line["event"] == "replica_started"]
    assert {(line["job"], line["node"]) for line in started} == {(label, NODE)}
    # The task that the request rang names it, too.
    assert any(line.get("task_id") and name == "worker" for name, line in followed)


def test_no_line_of_any_process_has_a_secret(stack, job):
    logs = {name: stack.log(name) for name in stack.running}
    assert all(logs.values())
    known = [SECRET_KEY, METRICS_TOKEN, stack.seeded["token"], stack.seeded["password"]]
    for secret in (*PLANTED.values(), *known, *stack.seeded["join"].values()):
        shown = {name for name, text in logs.items() if secret in text}
        assert shown == set(), secret[:14]
    encoded = base64.b64encode(f"olga:{PLANTED['basic']}".encode()).decode()
    assert not any(encoded in text for text in logs.values())


def test_a_worker_at_rest_writes_nothing(stack, job):
    """Its beat rings every 5 s; only what is news is a line."""
    clock = ("scheduler.tasks.sweep", "portal.webhooks.tasks.deliver")
    of_clock = [line for name, line in lines(stack) if line.get("task") in clock]
    assert [line for line in of_clock if line["event"] == "task done" and line["seconds"] < 1] == []


def test_the_worker_answers_for_its_children_and_with_beat_for_the_cluster(stack, job):
    # A busy machine may be late with the answers of its database and its broker.
    found = until(lambda: is_all_up(now := scrape(stack, worker_url(stack))) and now, what="counts")
    assert found["tessera_build_info", ("role", "worker"), ("version", "0.1.0")] == 1
    assert found["tessera_pass_seconds_count",] >= 1
    assert found["tessera_placements_total", ("outcome", "placed")] >= 1
    plan = ("outcome", "done"), ("task", "scheduler.tasks.plan")
    assert found["tessera_task_seconds_count", *plan] >= 1
    assert found["tessera_round_age_seconds", ("work", "plan")] < 600
    assert found["tessera_nodes", ("status", "online")] == 1
    assert found["tessera_queue_messages", ("queue", "celery.plan")] < 50
    assert found["tessera_heartbeat_age_seconds",] < 600


def test_the_web_process_answers_for_itself(stack, job):
    found = scrape(stack, stack.url)
    submitted = ("method", "POST"), ("route", "api:jobs"), ("status", "201")
    assert found["tessera_request_seconds_count", *submitted] == 1
    assert found["tessera_agent_report_seconds_count",] >= 1
    assert found["tessera_agent_calls_total", ("call", "hello"), ("status", "200")] >= 1
    assert found["tessera_agent_calls_total", ("call", "sync"), ("status", "401")] >= 1
    assert found["tessera_store_bytes_total", ("direction", "written")] >= len("hello\n")
    most = REQUEST_CONNECTIONS + settings.PLATFORM.agent_connections
    assert found["tessera_database_connections", ("state", "most")] == most
    assert found["tessera_held_calls",] >= 0
    text = str(sorted(found))
    assert not [planted for planted in PLANTED.values() if planted in text]
    assert job not in text


@pytest.mark.parametrize("token", ["", "x" * 40])
def test_nobody_reads_them_without_the_token(stack, token):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for url in (stack.url, worker_url(stack)):
        assert httpx.get(f"{url}/metrics", headers=headers, trust_env=False).status_code == 401
    elsewhere = httpx.get(f"{worker_url(stack)}/", headers=headers, trust_env=False)
    assert elsewhere.status_code == 404


def pool_child(stack):
    """The process that does the worker's tasks, and the folder of its metrics."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            maps = (
                (stat.parent / "maps").read_text() if parent == stack.running["worker"].pid else ""
            )
            if found := re.search(r"(/\S*/tessera-metrics-\w+)/counter_0\.db", maps):
                return int(stat.parent.name), Path(found[1])
    return None


def test_a_child_that_is_killed_loses_no_count_and_leaves_no_more_files(stack, job):
    """Last here: it kills the process in which the tests before have been counted."""
    before = scrape(stack, worker_url(stack))
    child, folder = pool_child(stack)
    files = {path.name for path in folder.iterdir()}
    os.kill(child, signal.SIGKILL)
    stack.until_status(stack.submit(["python3", "-c", "print(2)"]), "succeeded")
    placed = ("tessera_placements_total", ("outcome", "placed"))
    after = until(
        lambda: (now := scrape(stack, worker_url(stack)))[placed] > before[placed] and now,
        what="another placement to be counted",
    )
    assert after["tessera_pass_seconds_count",] > before["tessera_pass_seconds_count",]
    assert {path.name for path in folder.iterdir()} == files
    assert pool_child(stack)[0] != child
