"""What each face of the product says of quotas and jobs: figures by name, read off pages, REST and
the command line, as people read them. Faces that have a name in common must agree on it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from agents.contract.units import as_gpus
from portal.web.wording.labels import NBSP
from tests.support.rows import a_request

Facts = dict[str, str]
Fetch = Callable[[str], str]
RUNNING = ("placed", "preparing", "running", "stopping")
WAITING = ("submitted", "awaiting_approval", "queued")
NUMBER = r"([\d.,]+)"


def figure_faces(fetch: Fetch, run: Callable[..., str], projects: list[str]) -> dict[str, Facts]:
    """`fetch`: the text of a path; `run("ps", "-o", "json")`: what the command prints. The reader
    is a member of all projects and has a job in each."""
    faces = {"home": _home(plain(fetch("/"))), "queue": _queue(plain(fetch("/queue/")))}
    faces["jobs"] = _visible(title(fetch("/jobs/")))
    faces["rest jobs"] = _statuses(
        json.loads(fetch("/api/v1/jobs?mine=1&page_size=200"))["results"]
    )
    faces["rest, all jobs"] = _all(json.loads(fetch("/api/v1/jobs?page_size=200"))["results"])
    faces["cli jobs"] = _statuses(json.loads(run("ps", "-o", "json")))
    for name, statuses in (("running", RUNNING), ("waiting", WAITING)):
        query = "&".join(f"status={status}" for status in statuses)
        faces[f"{name} jobs"] = {name: _first(title(fetch(f"/jobs/?mine=1&{query}")))}
    faces["rest quotas"] = _quotas(_rows(fetch("/api/v1/quotas")))
    faces["cli quotas"] = _quotas(json.loads(run("quota", "-o", "json")))
    for slug in projects:
        faces[f"home, {slug}"] = _bar(plain(fetch("/")), slug)
        faces[f"project {slug}"] = _project(fetch(f"/projects/{slug}/"), slug)
        faces[f"projects, {slug}"] = _listed_project(fetch("/projects/"), slug)
        faces[f"usage of {slug}"] = _usage(plain(fetch(f"/usage/?of=project:{slug}")), slug)
        faces[f"panel of {slug}"] = _panel(
            plain(fetch(f"/request/?project={slug}&amount=gpus")), slug
        )
    return faces


def ring_face(text: str, slug: str) -> Facts:
    """Home about one project."""
    words = plain(text)
    found = re.search(rf"Quota of {slug}.*?{NUMBER} of {NUMBER}(?: GPUs)? ", words)
    assert found, words
    kept = re.search(rf"{NUMBER} kept for jobs about to start", words)
    free = re.search(rf"{NUMBER} free ", words[found.start() :])
    assert free, words
    return _quota(slug, found[1], found[2], kept[1] if kept else "0", free[1])


def dry_run_face(post: Callable[[dict[str, Any]], Any], project: Any) -> Facts:
    """The quota of the project in the answer to a dry run, and in its reason if it waits for it."""
    answer = post(a_request(project, device={"gpus": 1}))
    limit = next(each for each in answer["limits"] if each["of"] == "quota" and not each["user"])
    facts = {
        f"{project.slug} held": as_gpus(limit["used"]),
        f"{project.slug} promised": as_gpus(limit["promised"]),
    }
    reason = answer["reason"] or {}
    if reason.get("code") == "quota_project":
        said = reason["evidence"]
        assert as_gpus(said["used_units"]) == facts[f"{project.slug} held"], reason
        assert as_gpus(said.get("promised_units", 0)) == facts[f"{project.slug} promised"], reason
        assert sum(said.get("held_by", {}).values()) <= said["used_units"], reason
    return facts


def no_card_contradicts_itself(text: str) -> None:
    """A card that starts at once has something free."""
    words = {
        (kind, amount): plain(inner)
        for kind, amount, inner in re.findall(
            r'data-part="(start|stock)-([^"]*)">(.*?)</span>', text, re.DOTALL
        )
    }
    for (kind, amount), stock in words.items():
        if kind == "stock" and re.match(r"none of", stock):
            start = words.get(("start", amount), "")
            assert " now" not in start, f"{amount}: {start!r} beside {stock!r}"


def plain(text: str) -> str:
    """The words that a page shows."""
    shown = re.sub(r"<(title|script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]*>", " ", shown)).replace(NBSP, " ")
    return re.sub(r"\s+", " ", words)


def title(text: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", text, re.DOTALL)
    assert found, text
    return plain(found[1]).strip()


def _rows(text: str) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = json.loads(text)["results"]
    return rows


def _first(words: str) -> str:
    found = re.search(r"\d[\d,]*", words)
    return found[0] if found else "0"


def _of_both(words: str) -> tuple[str, str]:
    """Running and waiting jobs in a title."""
    running = re.search(r"(\d[\d,]*) jobs? running", words)
    waiting = re.search(r"(\d[\d,]*)(?: jobs?)? waiting", words)
    return running[1] if running else "0", waiting[1] if waiting else "0"


def _home(words: str) -> Facts:
    running, waiting = _of_both(words)
    return {"running": running, "waiting": waiting}


def _visible(words: str) -> Facts:
    running, waiting = _of_both(words)
    return {"all running": running, "all waiting": waiting}


def _queue(words: str) -> Facts:
    waiting = re.search(r"(\d[\d,]*) jobs? (?:is|are) waiting", words)
    holding = re.search(r"(\d[\d,]*) jobs? holds? devices", words)
    assert holding, words
    return {"all waiting": waiting[1] if waiting else "0", "all running": holding[1]}


def _statuses(jobs: list[Mapping[str, Any]]) -> Facts:
    return {
        "running": str(sum(job["status"] in RUNNING for job in jobs)),
        "waiting": str(sum(job["status"] in WAITING for job in jobs)),
    }


def _all(jobs: list[Mapping[str, Any]]) -> Facts:
    return {f"all {name}": number for name, number in _statuses(jobs).items()}


def _quota(slug: str, held: str, limit: str, promised: str, free: str) -> Facts:
    return {
        f"{slug} held": held,
        f"{slug} limit": limit,
        f"{slug} promised": promised,
        f"{slug} free": free,
    }


def _quotas(rows: list[Mapping[str, Any]]) -> Facts:
    facts: Facts = {}
    for row in rows:
        assert row["used_units"] == row["held_units"]
        if not row["user"] and not row["model"]:
            amounts = (as_gpus(row[f"{name}_units"]) for name in ("held", "limit", "promised"))
            free = as_gpus(row["free_units"], round_up=False)
            facts |= _quota(row["project"], *amounts, free)
    return facts


def _bar(words: str, slug: str) -> Facts:
    found = re.search(
        rf"{slug} {NUMBER} of {NUMBER} GPUs held {NUMBER} held by you, {NUMBER} free"
        rf"(?:, {NUMBER} kept for jobs about to start)?",
        words,
    )
    assert found, words
    return _quota(slug, found[1], found[2], found[5] or "0", found[4])


def _project(text: str, slug: str) -> Facts:
    row = re.search(r'<th scope="row">whole project</th><td>–</td>(.*?)</tr>', text, re.DOTALL)
    assert row, text
    held, promised, free, limit, *_rest = (
        plain(cell).strip().removesuffix(" GPU")
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", row[1], re.DOTALL)
    )
    return _quota(slug, held, limit, promised, free)


def _listed_project(text: str, slug: str) -> Facts:
    row = re.search(rf'<th scope="row"><a href="/projects/{slug}/">(.*?)</tr>', text, re.DOTALL)
    assert row, text
    _role, _members, held, promised, free, limit, *_rest = (
        plain(cell).strip().removesuffix(" GPU")
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", row[1], re.DOTALL)
    )
    return _quota(slug, held, limit, promised, free)


def _usage(words: str, slug: str) -> Facts:
    found = re.search(
        rf"{slug} {NUMBER} of {NUMBER} GPUs held {NUMBER} free"
        rf"(?:, {NUMBER} kept for jobs about to start)?",
        words,
    )
    assert found, words
    return _quota(slug, found[1], found[2], found[4] or "0", found[3])


def _panel(words: str, slug: str) -> Facts:
    """The panel says what is held with the requested GPU."""
    found = re.search(
        rf"{NUMBER} of {NUMBER} GPU held by project {slug} after this"
        rf"(?:, and {NUMBER} kept for jobs ahead)?",
        words,
    )
    assert found, words
    holds = re.search(rf"Holds {NUMBER} GPU", words)
    held = Decimal(found[1].replace(",", "")) - Decimal(holds[1] if holds else 1)
    shown = as_gpus(int(held * 100) * 560)
    return {
        f"{slug} held": shown,
        f"{slug} limit": found[2],
        f"{slug} promised": found[3] or "0",
    }
