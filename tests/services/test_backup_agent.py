"""A backup, three more jobs and a restore under real agents: nothing is ended or started twice,
and one action resolves what the node holds. A node's key is replaced under a running job."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.environment.programs import runs
from tests.services.stack import ROOT, Stack, until
from tests.services.test_kill import program, starts

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1200)]

NODE = "node-a"
PASSWORD = "of-a-test-and-nothing-else"


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    url = postgres_server.create_database(migrated=True)
    var = tmp_path / "var"
    with Stack(var=var, database_url=url, redis_url=redis_server.url(), nodes=(NODE,)) as running:
        yield running


def manage(stack: Stack, *arguments: str, **env: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=stack.env | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class PlatformAdmin:
    """Of REST and of the console."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        names = ("--no-input", "--username=root", "--email=")
        manage(stack, "createsuperuser", *names, DJANGO_SUPERUSER_PASSWORD=PASSWORD)
        self.token = manage(stack, "token", "root", "--scope", "admin").strip()

    def call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.stack.url}/api/v1{path}"
        answer = self.stack.http.request(method, url, headers=headers, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def node(self) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/nodes/{NODE}")
        return found

    def page(self, path: str) -> str:
        http = httpx.Client(base_url=self.stack.url, trust_env=False, timeout=60)
        with http:
            form = re.search(
                r'name="csrfmiddlewaretoken" value="(\w+)"', http.get("/sign-in/").text
            )
            assert form
            fields = {"username": "root", "password": PASSWORD, "csrfmiddlewaretoken": form[1]}
            http.post("/sign-in/", data=fields)
            answer = http.get(path)
        assert answer.status_code == 200, answer.status_code
        return answer.text


def a_running_job(stack: Stack, home: Path) -> str:
    home.mkdir()
    job = stack.submit(program(home))
    stack.until_status(job, "running")
    until(lambda: starts(home, 0), what=f"{job} to start")
    return job


def is_running(home: Path) -> bool:
    """Started once, and still there."""
    (pid,) = starts(home, 0)
    return runs(pid)


@pytest.mark.soak
def test_three_more_jobs_and_a_restore_end_and_double_nothing(stack, tmp_path):
    admin, archive = PlatformAdmin(stack), tmp_path / "tessera.tar"
    kept = tmp_path / "kept"
    first = a_running_job(stack, kept)
    manage(stack, "backup", str(archive))
    more = [tmp_path / f"more-{number}" for number in range(3)]
    lost = [a_running_job(stack, home) for home in more]

    stack.kill("web")
    stack.kill("worker")
    assert "1 nodes have to report" in manage(stack, "restore", str(archive), "--yes-replace")
    stack.start_worker()
    stack.start_web()

    until(lambda: admin.node()["holding_since"], what="the node to hold back")
    node = admin.node()
    assert len(node["held_replicas"]) == 3
    assert all(is_running(home) for home in (kept, *more)), "nothing was ended"
    assert stack.job(first)["status"] == "running"
    page = admin.page(f"/console/nodes/{NODE}/held")
    uids = [held["job"] for held in node["held_replicas"]]
    assert all(uid in page for uid in uids) and "The node stops 3 replicas" in page

    later = stack.submit(program(tmp_path))
    code = until(lambda: (stack.job(later)["reason"] or {}).get("code"), what="a reason")
    assert code == "node_holding" and later not in lost

    shown = [held["replica"] for held in node["held_replicas"]]
    admin.call("POST", f"/nodes/{NODE}/allow-mass-removal", json={"replicas": shown})
    until(lambda: not any(is_running(home) for home in more), what="them to end")
    stack.until_status(later, "running")
    assert admin.node()["holding_since"] is None
    assert is_running(kept), "what the database knows goes on"
    for home in (kept, tmp_path):
        (home / "finish").touch()
    for job in (first, later):
        seen = stack.until_status(job, "succeeded", "failed")
        assert (seen["status"], len(seen["attempts"])) == ("succeeded", 1), json.dumps(seen)
    assert [len(starts(home, 0)) for home in (kept, tmp_path, *more)] == [1] * 5
    assert stack.call("GET", f"/jobs/{first}/logs").splitlines() == ["started", "done"]
    # Every object that a row names is there, and has its bytes: a backup reads them all.
    done = manage(stack, "backup", str(tmp_path / "after.tar"))
    assert "the store does not have" not in done


def test_the_key_of_a_node_is_replaced_while_its_job_runs(stack, tmp_path):
    """The words of docs/security-model.md."""
    admin, home = PlatformAdmin(stack), tmp_path / "home"
    job = a_running_job(stack, home)
    token = admin.call("POST", f"/nodes/{NODE}/join-token")["join_token"]
    folder = stack.var / "nodes" / NODE / "agent"
    old = shutil.copy(folder / "key", tmp_path / "old-key")
    stack.stop(NODE)
    for name in ("key", "node-id"):
        (folder / name).unlink()
    stack.seeded["join"][NODE] = token
    stack.start_agent(NODE)
    until(lambda: (folder / "node-id").exists(), what="the new key to enrol")
    assert (folder / "key").read_bytes() != Path(old).read_bytes()
    (home / "finish").touch()
    seen = stack.until_status(job, "succeeded", "failed")
    assert (seen["status"], len(seen["attempts"]), len(starts(home, 0))) == ("succeeded", 1, 1)
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
