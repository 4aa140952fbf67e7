"""A stack whose node fetches the code of jobs from a git server: run as a program in a network
namespace of its own, as no node connects to loopback.

`git_stack.py FOLDER ADDRESS` prints what became of its jobs as JSON; ADDRESS is the namespace's.
"""

import base64
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from agents.job_secrets.memory import secret_memory
from tests.services.stack import Stack, until
from tests.support.git_server import GitServer, a_repository, commit_files, git, serving_git

TOKEN = "glpat-canary-0123456789"
# Prints what it was given, and fails once more than it is retried.
PROGRAM = """
import os, pathlib, sys
print(os.getcwd() == os.environ["TESSERA_CODE_DIR"], pathlib.Path("version.txt").read_text())
print(sorted(os.listdir(os.environ.get("TESSERA_SECRETS_DIR", "."))))
sys.exit(1)
"""


def play(folder: Path, address: str) -> dict[str, Any]:
    repository = a_repository(folder / "root" / "app.git", {"version.txt": b"first"})
    with serving_git(folder / "root", folder, address, address) as server:
        server.account = f"git:{TOKEN}"
        policy = f'git_hosts = ["{server.endpoint}"]\ngit_ca_file = "{server.ca_file}"\n'
        try:
            with Stack(folder / "var", nodes=("node-a",), policy=policy) as stack:
                return _played(stack, server, repository)
        finally:
            # The agent was killed, so it removes nothing.
            agent = folder / "var" / "nodes" / "node-a" / "agent"
            shutil.rmtree(secret_memory(agent).root, ignore_errors=True)


def _played(stack: Stack, server: GitServer, repository: Path) -> dict[str, Any]:
    stack.call("PUT", "/secrets/DEPLOY", json={"value": TOKEN})
    first = git(repository, "rev-parse", "main")
    fields = {"code": server.source("private/app.git", "main"), "secrets": ["DEPLOY:git"]}
    again = {"infrastructure": 0, "user": 1}
    job = stack.submit(["python3", "-c", PROGRAM], retries=again, **fields)
    until(lambda: _commits(stack, job)[:1] == [first], what="the first commit")
    second = commit_files(repository, {"version.txt": b"second"})
    ended = stack.until_status(job, "failed", "succeeded")
    newer = stack.submit(["python3", "-c", PROGRAM], retries={"infrastructure": 0}, **fields)
    stack.until_status(newer, "failed", "succeeded")
    absent = stack.submit(["true"], code=server.source("other.git"), retries={"infrastructure": 0})
    refused = stack.until_status(absent, "failed", "succeeded")
    elsewhere = stack.submit(["true"], code="git+https://git.example/app.git")
    waiting = until(lambda: stack.job(elsewhere)["reason"], what="its reason")
    return {
        "commits": [first, second],
        "first": _commits(stack, job),
        "newer": _commits(stack, newer),
        "cause": ended["result"]["first_failure"]["code"],
        "log": stack.call("GET", f"/jobs/{newer}/logs"),
        "refused": refused["result"]["first_failure"],
        "waiting": waiting["sentence"],
        "leaks": _leaks(stack, newer),
    }


def _commits(stack: Stack, job: str) -> list[str]:
    return [attempt["code_commit"] for attempt in stack.job(job)["attempts"]]


def _leaks(stack: Stack, job: str) -> list[str]:
    """Files of the stack, and answers about the job, in which the token stands; also as https sends
    it."""
    canaries = (TOKEN.encode(), base64.b64encode(f"git:{TOKEN}".encode()))
    files = (path for path in stack.var.rglob("*") if path.is_file())
    texts = {str(path): path.read_bytes() for path in files}
    for path in (f"/jobs/{job}", f"/jobs/{job}/logs", "/jobs", "/secrets", "/nodes"):
        texts[path] = json.dumps(stack.call("GET", path)).encode()
    return [name for name, text in texts.items() if any(each in text for each in canaries)]


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]), sys.argv[2])))
