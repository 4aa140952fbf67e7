"""A secret is read by its job and found nowhere else, and the password of a registry nowhere: not
in the database, logs, journals, answers, pages, events, backups or the store, neither while the job
runs nor after it."""

import contextlib
import gzip
import hashlib
import json
import re
import secrets
import shutil
import tarfile
from pathlib import Path

import httpx
import pytest

from agents.job_secrets.memory import secret_memory
from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]
NODE = "node-a"
TOKEN, KEY = "canary-" + secrets.token_hex(16), "canary-" + secrets.token_hex(16)
PASSWORD = "canary-" + secrets.token_hex(16)
REGISTRY = "/projects/vision/registries"
# Reads both, shows that it has them, prints them as careless programs do, and waits.
PROGRAM = """
import hashlib, os, pathlib, sys, time
token = pathlib.Path(os.environ["TESSERA_SECRETS_DIR"], "HF_TOKEN").read_text()
key = os.environ["WANDB_API_KEY"]
print(hashlib.sha256((token + key).encode()).hexdigest(), flush=True)
for text in (token[:9], token[9:], f" and {key}{token}"):
    print(text, end="", flush=True)
    time.sleep(0.4)
print(f" bye", flush=True)
print(token, key, file=sys.stderr, flush=True)
time.sleep(600)
"""
PAGES = (
    "/projects/vision/registries/",
    "/account/secrets/",
    "/account/",
    "/jobs/",
    "/request/?like={job}",
    "/jobs/{job}/",
)
TABS = ("logs", "events", "spec", "results")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("canary"), nodes=(NODE,), gpus=1) as running:
        yield running
    # The agent was killed, so it removes nothing.
    shutil.rmtree(secret_memory(running.var / "nodes" / NODE / "agent").root, ignore_errors=True)


@pytest.fixture(scope="module")
def job(stack):
    for name, value in {"HF_TOKEN": TOKEN, "WANDB_API_KEY": KEY}.items():
        stack.call("PUT", f"/secrets/{name}", json={"value": value})
    set_registry(stack)
    uses = ["HF_TOKEN", {"name": "WANDB_API_KEY", "as": "env"}]
    job = stack.submit(["python3", "-c", PROGRAM], secrets=uses)
    stack.until_status(job, "running")
    return job


def set_registry(stack):
    """As an admin of the project, whom only a browser of this stack knows."""
    with signed_in(stack, "ada") as browser:
        headers = {"X-CSRFToken": browser.cookies["csrftoken"], "Referer": stack.url}
        body = {"user": "robot", "password": PASSWORD}
        path = f"/api/v1{REGISTRY}/ghcr.io/team"
        assert browser.put(path, json=body, headers=headers).is_success


@contextlib.contextmanager
def signed_in(stack, name):
    with httpx.Client(
        trust_env=False, base_url=stack.url, follow_redirects=True, timeout=60
    ) as browser:
        form = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/sign-in/").text)
        fields = {"username": name, "password": stack.seeded["password"]}
        browser.post("/sign-in/", data=fields | {"csrfmiddlewaretoken": form[1]})
        yield browser


def the_log(stack, job):
    return stack.call("GET", f"/jobs/{job}/logs")


def texts(stack, job):
    """What people and programs read: REST, events, pages, and the portal's own files."""
    for path in (
        REGISTRY,
        "/secrets",
        "/jobs",
        f"/jobs/{job}",
        f"/jobs/{job}/logs",
        "/nodes",
        "/me",
    ):
        yield path, json.dumps(stack.call("GET", path))
    with signed_in(stack, "alice") as browser:
        for path in (*PAGES, *(f"/jobs/{{job}}/{tab}" for tab in TABS)):
            answer = browser.get(path.format(job=job))
            assert answer.status_code == 200, path
            yield path, answer.text
            assert "HF_TOKEN" in answer.text or "secrets" not in path
            assert "ghcr.io/team" in answer.text or "registries" not in path


def files(stack, folder: Path):
    """Every file below the folder, and what is in archives."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield str(path), data
            if data[:2] == b"\x1f\x8b":
                yield f"{path} unpacked", gzip.decompress(data)
    backup = stack.var.parent / f"{stack.var.name}-{secrets.token_hex(4)}.tar"
    stack.manage_program("manage", "backup", str(backup))
    with tarfile.open(backup) as archive:
        for member in archive:
            if member.isfile():
                yield f"backup {member.name}", archive.extractfile(member).read()
    yield "backup", backup.read_bytes()


def leaks(stack, job, *, but=frozenset()):
    canaries = [TOKEN.encode(), KEY.encode(), PASSWORD.encode()]
    found = [name for name, text in texts(stack, job) if any(c.decode() in text for c in canaries)]
    for name, data in files(stack, stack.var):
        if any(canary in data for canary in canaries) and Path(name).name not in but:
            found.append(name)
    return found


def test_the_job_reads_it_and_it_is_found_nowhere_else(stack, job):
    proof = hashlib.sha256((TOKEN + KEY).encode()).hexdigest()
    until(lambda: " bye" in str(the_log(stack, job)), what="what the job prints")
    text = str(the_log(stack, job))
    assert proof in text and "*" * len(TOKEN) in text
    memory = secret_memory(stack.var / "nodes" / NODE / "agent")
    assert memory.root.is_dir() and memory.marked()
    # The job's own output on its node: the engine's file, which goes with the replica.
    assert leaks(stack, job, but={"log"}) == []
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled")
    until(lambda: not memory.marked(), what="the end of its secrets on the node")
    assert not any(memory.root.iterdir())
    assert leaks(stack, job) == []


def test_an_agent_that_was_killed_goes_on_hiding_them(stack):
    program = (
        "import os, time\n"
        "for _ in range(2000):\n"
        "    print(open(os.environ['TESSERA_SECRETS_DIR'] + '/HF_TOKEN').read(), flush=True)\n"
        "    time.sleep(0.2)\n"
    )
    job = stack.submit(["python3", "-c", program], secrets=["HF_TOKEN"])
    stack.until_status(job, "running")
    until(lambda: "*" * len(TOKEN) in str(the_log(stack, job)), what="its first line")
    stack.kill(NODE)
    before = len(str(the_log(stack, job)))
    stack.start_agent(NODE)
    until(lambda: len(str(the_log(stack, job))) > before + 200, what="more of its log")
    assert TOKEN not in str(the_log(stack, job))
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled")
