"""`tessera code`: what a project has, and its removal after a question."""

from __future__ import annotations

import httpx

from tests.unit.cli.fake_rest import Rest, problem

ID = "8c5b0a3e-0000-4000-8000-000000000001"
ROW = {
    "id": ID,
    "origin": "folder",
    "digest": "d" * 64,
    "file_count": 14,
    "total_bytes": 3 << 20,
    "creator": "olga",
    "created_at": "2026-11-26T02:00:00Z",
    "job_count": 5,
    "jobs": ["J-9", "J-8", "J-7"],
    "is_needed": False,
    "removal_at": "2026-12-26T02:00:00Z",
}
COMMIT = {
    "repository": "git+https://git.example/team/app.git@main",
    "commit": "1" * 40,
    "creator": "olga",
    "first_at": "2026-11-20T02:00:00Z",
    "last_at": "2026-11-26T02:00:00Z",
    "job_count": 1,
    "jobs": ["J-4"],
}


def test_code_and_commits_are_listed_with_their_jobs():
    needed = ROW | {"id": "other", "is_needed": True, "removal_at": None}
    rest = Rest().on("GET", "projects/vision/trees", {"results": [ROW, needed]})
    rest.on("GET", "projects/vision/commits", {"results": [COMMIT]})
    first, second = rest.run("code", "list", "-p", "vision").stdout.splitlines()[1:]
    assert ID in first and "J-9, J-8, J-7 and 2 more" in first
    assert second.rstrip().endswith("needed")
    assert rest.run("code", "list", "-p", "vision", "-o", "name").stdout == f"{ID}\nother\n"
    shown = rest.run("code", "commits", "-p", "vision").stdout
    assert COMMIT["commit"] in shown and COMMIT["repository"] in shown and "J-4" in shown


def test_without_a_project_it_is_the_only_one():
    rest = Rest().on("GET", "projects", {"results": [{"slug": "vision", "archived": False}]})
    rest.on("GET", "projects/vision/trees", {"results": []})
    assert "No code is stored." in rest.run("code", "list").stderr
    two = [{"slug": slug, "archived": False} for slug in ("speech", "vision")]
    rest.on("GET", "projects", {"results": two})
    refused = rest.run("code", "list")
    assert refused.exit_code == 2 and "one of speech, vision" in refused.stderr


def test_code_is_removed_after_a_question_and_a_refusal_is_told():
    tree = ROW | {"kind": "code", "job": None}
    rest = Rest().on("GET", f"trees/{ID}", tree)
    needed = problem(409, "files_needed", "Jobs need these files: J-9")
    rest.on("DELETE", f"trees/{ID}", needed, httpx.Response(204))
    assert rest.run("code", "rm", ID, input="n\n").exit_code == 1
    assert not rest.sent("DELETE", f"trees/{ID}")
    refused = rest.run("code", "rm", ID, "--yes")
    assert refused.exit_code == 5 and "J-9" in refused.stderr
    done = rest.run("code", "rm", ID, input="y\n")
    assert done.exit_code == 0 and "removed the code" in done.stderr and "14 files" in done.stderr
