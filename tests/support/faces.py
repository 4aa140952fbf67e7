"""What each face of the product says is free: numbers by name, read off pages, REST and the CLI.

Two faces that have a name in common must agree on it: `assert_one_answer(faces)`.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Facts = dict[str, int]
Fetch = Callable[[str], str]


def page_faces(fetch: Fetch) -> dict[str, Facts]:
    """Home, the Queue page, the Cluster page, the page of each node and the request cards.
    `fetch`: the text of a path."""
    cluster = fetch("/cluster/")
    faces = {
        "home": _home(fetch("/")),
        "queue": _line(fetch("/queue/")),
        "cluster": _cluster(cluster),
        "request": _cards(fetch("/request/")),
    }
    nodes = sorted(set(re.findall(r'aria-label="([\w-]+): \d+ GPUs?, (?=\d+ free)', cluster)))
    for node in nodes:
        faces[f"cluster/{node}"] = _drawing(fetch(f"/cluster/{node}/"), node)
    return faces


def rest_face(body: Mapping[str, Any]) -> Facts:
    """GET /api/v1/availability?nodes=true."""
    cluster = body["cluster"]
    facts = {
        "gpus": cluster["gpus"],
        "in service": cluster["in_service"],
        "out": cluster["out_of_service"],
        "away": cluster["on_unavailable_nodes"],
        "free": cluster["free_gpus"],
        "idle slices": cluster["idle_slices"],
    }
    for counts in body["nodes"]:
        name = f"free on {counts['node']}"
        facts[name] = facts.get(name, 0) + counts["free_gpus"]
    return _with_uncounted(facts | _devices(d for b in body["boards"] for d in b["devices"]))


def cli_face(run: Callable[..., str]) -> Facts:
    """`run("top", "-o", "json")` is what the command prints."""
    top, info = (json.loads(run(word, "-o", "json")) for word in ("top", "info"))
    offers = json.loads(run("offers", "-o", "json"))
    facts = {
        "gpus": top["gpus"],
        "in service": top["gpus_in_service"],
        "free": top["gpus_free"],
        "out": top["gpus_faulted"],
        "away": top["gpus_on_unavailable_nodes"],
    }
    facts |= {f"free on {node['name']}": node["free_gpus"] for node in info}
    devices = [offer | {"available": offer["free"], "total": offer["all"]} for offer in offers]
    return _with_uncounted(facts | _devices(devices))


def assert_one_answer(faces: Mapping[str, Facts]) -> Facts:
    """All that the faces say together. Fails where two of them differ."""
    answer: Facts = {}
    for face, facts in faces.items():
        differ = {n: (answer[n], facts[n]) for n in answer.keys() & facts if answer[n] != facts[n]}
        assert not differ, f"{face} differs from the faces before it: {differ} in {dict(faces)}"
        answer |= facts
    return answer


def _with_uncounted(facts: Facts) -> Facts:
    """The request page shows the two as one number."""
    return facts | {"not counted": facts["out"] + facts["away"]}


def _devices(devices: Any) -> Facts:
    facts: Facts = {}
    for device in devices:
        if device["kind"] == "mig":
            name = f"{device['profile']} available"
            facts[name] = facts.get(name, 0) + device["available"]
    return facts


def _plain(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", text)).replace(",", "").strip()


def _first(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _line(text: str) -> Facts:
    found = re.search(r"(\d+) of (\d+) GPUs free", _plain(text))
    if not found:
        assert "No GPU is in service." in text, _plain(text)
    return {"free": int(found[1]), "in service": int(found[2])} if found else {"in service": 0}


def _home(text: str) -> Facts:
    out = _first(r"(\d+) GPUs? (?:is|are) out of service", text)
    away = _first(r"(\d+) GPUs? (?:is|are) on (?:a node|nodes) that takes? no work", text)
    return _with_uncounted(_line(text) | {"out": out, "away": away}) | _drawings(text)


def _drawings(text: str) -> Facts:
    found = re.findall(r'aria-label="([\w-]+): \d+ GPUs?, (\d+) free; (\d+) idle', text)
    return {f"free on {node}": int(free) for node, free, _ in found}


def _drawing(text: str, node: str) -> Facts:
    return {name: free for name, free in _drawings(text).items() if name.endswith(node)}


def _cluster(text: str) -> Facts:
    table = re.search(r'data-part="summary".*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert table, "no summary of models"
    facts = dict.fromkeys(("gpus", "free", "idle slices", "out", "away"), 0)
    for row in re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL):
        cells = [_plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for name, cell in zip(facts, cells[1:6], strict=True):
            facts[name] += int(cell)
        for profile, available in re.findall(r"(\d+g\.\d+gb)\s+(\d+)", cells[6]):
            name = f"{profile} available"
            facts[name] = facts.get(name, 0) + int(available)
    title = re.search(r"<h1[^>]*>(.*?)</h1>", text, re.DOTALL)
    headline = _first(r"(\d+) GPUs? free now", _plain(title[1]) if title else "")
    assert headline == facts["free"], "the title and the table of the Cluster page differ"
    return _with_uncounted(facts) | _drawings(text)


def _cards(text: str) -> Facts:
    facts = {"not counted": _first(r"(\d+) GPUs? (?:is|are) not counted", text)}
    cards = re.findall(r'data-part="stock-([^"]*)">(.*?)</span>', text, re.DOTALL)
    for amount, words in ((amount, _plain(words)) for amount, words in cards):
        numbers = re.search(r"(\d+|none)(?: of \d+)? free", words)
        free = 0 if not numbers or numbers[1] == "none" else int(numbers[1])
        if amount == "gpus":
            facts["free"] = free
        elif re.fullmatch(r"\d+g\.\d+gb", amount):
            facts[f"{amount} available"] = free
    return facts
