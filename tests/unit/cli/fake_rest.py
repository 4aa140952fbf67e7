"""REST as the CLI hears it, without a network: answers by address, and every call kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx
from typer.testing import CliRunner

from portal.cli.context import CliContext
from portal.cli.main import app

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
URL = "https://gpu.example.org"


def problem(status: int, code: str, detail: str = "no", **more) -> httpx.Response:
    body = {"status": status, "code": code, "detail": detail, "title": "t", "errors": []} | more
    headers = {"Content-Type": "application/problem+json"}
    return httpx.Response(status, json=body, headers=headers)


def a_row(label: str = "J-12", **fields) -> dict:
    """A job as REST shows it."""
    row = {
        "id": label,
        "project": "vision",
        "owner": "olga",
        "name": "llama-ft",
        "kind": "batch",
        "image": "pytorch:2.7",
        "replicas": 1,
        "priority": "normal",
        "status": "queued",
        "stop_reason": "",
        "reason": None,
        "position": 3,
        "estimate": None,
        "no_estimate": None,
        "time_limit_seconds": 3600,
        "submitted_at": "2026-05-04T11:00:00Z",
        "started_at": None,
        "deadline_at": None,
        "finished_at": None,
        "gpu_hours": "0.0000",
        "preemptible": False,
        "request": {"command": ["python", "train.py"], "device": {"gpus": 1}},
        "attempts": [],
        "result": None,
    }
    return row | fields


def an_end(status: str, *codes: int, first: int | None = None) -> dict:
    """The fields of a job that is over, with the exit codes of its replicas."""
    replicas = [
        {"rank": i, "exit_code": code, "memory_kill": False, "sentence": ""}
        for i, code in enumerate(codes)
    ]
    failure = None if first is None else {"exit_code": first, "sentence": f"code {first}"}
    result = {"attempt": 1, "outcome": status, "first_failure": failure, "replicas": replicas}
    return {"status": status, "position": None, "result": result}


@dataclass
class Rest:
    """`answers`: (method, path) to what is answered, one after the other, the last for ever."""

    answers: dict[tuple[str, str], list] = field(default_factory=dict)
    calls: list[httpx.Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def on(self, method: str, path: str, *answers: object) -> Rest:
        self.answers[method, path] = list(answers)
        return self

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(request)
        told = self.answers.get((request.method, request.url.path.removeprefix("/api/v1/")))
        if told is None:
            return problem(404, "not_found", "There is no such thing here")
        answer = told.pop(0) if len(told) > 1 else told[0]
        answer = answer(request) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def sent(self, method: str, path: str) -> list[httpx.Request]:
        return [
            call
            for call in self.calls
            if (call.method, call.url.path) == (method, f"/api/v1/{path}")
        ]

    def body(self, method: str, path: str) -> dict:
        return json.loads(self.sent(method, path)[-1].content)

    def run(self, *words: str, env: dict | None = None, asks: bool = False, input: str = ""):
        """The command with these words. Time passes only while it pauses."""
        own = {"TESSERA_URL": URL, "TESSERA_TOKEN": "tsr_abc", "TESSERA_CONFIG": "/nowhere/c"}
        tools = CliContext(
            env=own | (env or {}),
            transport=httpx.MockTransport(self),
            pause=self.pauses.append,
            now=lambda: NOW + timedelta(seconds=sum(self.pauses)),
            interactive=asks,
        )
        return CliRunner().invoke(app, list(words), obj=tools, input=input)
