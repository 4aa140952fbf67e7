"""A planning pass saved as JSON, to inspect or replay it elsewhere.

The file names people, projects, jobs and nodes, but contains no job's command or environment.
"""

import json
from dataclasses import replace
from typing import Any

from agents.contract.codec import decode, encode
from agents.contract.errors import ContractError
from scheduler.core.model.links import UNKNOWN, Links, interned_links
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot

FORMAT = "tessera-planning-pass-2"
OLD_FORMAT = "tessera-planning-pass-1"
# Names that fields had in files of OLD_FORMAT.
_OLD_NAMES = {
    "held": "allocated",
    "held_because": "hold_reason",
    "held_unit_seconds": "reserved_unit_seconds",
    "past": "history",
    "departing": "departures_per_start",
    "unavailable_because": "unavailable_reason",
}


def write_pass(snapshot: ClusterSnapshot, policy: Policy) -> str:
    """One line of JSON; equal passes give equal text."""
    data = {"format": FORMAT, "policy": encode(policy), "snapshot": encode(snapshot)}
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def read_pass(text: str) -> tuple[ClusterSnapshot, Policy]:
    """Raises ValueError with a sentence that names the first error."""
    try:
        data = json.loads(text)
    except ValueError as wrong:
        raise ValueError(f"this is not JSON: {wrong}") from None
    if not isinstance(data, dict) or data.get("format") not in (FORMAT, OLD_FORMAT):
        raise ValueError(f"this is not a saved planning pass: its format should be {FORMAT}")
    if data["format"] == OLD_FORMAT:
        data = _with_new_names(data)
    try:
        policy = decode(Policy, data.get("policy"), "policy.")
        snapshot = decode(ClusterSnapshot, data.get("snapshot"), "snapshot.")
    except ContractError as wrong:
        raise ValueError(f"{wrong.field}: {wrong.sentence}") from None
    nodes = tuple(replace(node, links=_interned(node.links)) for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes), policy


def _with_new_names(value: Any) -> Any:
    """JSON data of OLD_FORMAT with today's names of fields."""
    if isinstance(value, list):
        return [_with_new_names(item) for item in value]
    if isinstance(value, dict):
        return {_OLD_NAMES.get(key, key): _with_new_names(item) for key, item in value.items()}
    return value


def _interned(links: Links) -> Links:
    """Equal nodes share one `Links` object, which its caches rely on."""
    return interned_links(links.mb_per_second, links.nvlink) if links else UNKNOWN
