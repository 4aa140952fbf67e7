"""A planning pass saved as JSON, so that it can be looked at and replayed elsewhere.

It holds names of people, projects, jobs and nodes, but nothing of a job's command or environment.
"""

import json
from dataclasses import replace

from agents.contract.codec import decode, encode
from agents.contract.errors import ContractError
from scheduler.core.model.links import UNKNOWN, Links, shared_links
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot

FORMAT = "tessera-planning-pass-1"


def saved_pass(snapshot: ClusterSnapshot, policy: Policy) -> str:
    """One line of JSON; equal passes give equal text."""
    whole = {"format": FORMAT, "policy": encode(policy), "snapshot": encode(snapshot)}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def read_pass(text: str) -> tuple[ClusterSnapshot, Policy]:
    """Raises ValueError with a sentence that names the first thing that is wrong."""
    try:
        data = json.loads(text)
    except ValueError as wrong:
        raise ValueError(f"this is not JSON: {wrong}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"this is no saved planning pass: its format should be {FORMAT}")
    try:
        policy = decode(Policy, data.get("policy"), "policy.")
        snapshot = decode(ClusterSnapshot, data.get("snapshot"), "snapshot.")
    except ContractError as wrong:
        raise ValueError(f"{wrong.field}: {wrong.sentence}") from None
    nodes = tuple(replace(node, links=_known(node.links)) for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes), policy


def _known(links: Links) -> Links:
    return shared_links(links.mb_per_second, links.nvlink) if links else UNKNOWN
