"""`python -m scheduler.core.model.diagrams`: the state machines as Mermaid diagrams."""

import sys

from scheduler.core.model.states import EDGES, Edges

HEAD = """# State machines

Written by `python -m scheduler.core.model.diagrams` from `scheduler/core/model/states.py`: do not
edit. Nothing but `portal.audit.transitions.advance` changes a status; it refuses what has no arrow.
"""
NOTES = {
    "job": "A job goes back to `queued` when it made way, or where a retry is left.",
    "replica": "What the node last said. A lost replica may still be told to have ended.",
    "allocation": "`released` only after its container was seen gone, or the node retired.",
    "slice": "In use is not a state: a slice is in use while an allocation of it is live.",
    "node": "Whether a node takes new work is a flag of its own (cordon), not a state.",
}


def page() -> str:
    """The whole page; the same tables give the same bytes."""
    sections = [
        f"## {noun.capitalize()}\n\n{NOTES[noun]}\n\n{diagram(edges)}"
        for noun, edges in EDGES.items()
    ]
    return "\n".join([HEAD, *sections])


def diagram(edges: Edges) -> str:
    """One Mermaid block. The first state of a table is where its noun begins."""
    order = list(edges)
    arrows = [f"    [*] --> {order[0]}"]
    for old, targets in edges.items():
        arrows += [f"    {old} --> {new}" for new in sorted(targets, key=order.index)]
        if not targets:
            arrows.append(f"    {old} --> [*]")
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```", ""])


if __name__ == "__main__":
    sys.stdout.write(page())
