"""`python -m scheduler.core.model.diagrams` writes the state machines as Mermaid diagrams."""

import sys

from scheduler.core.model.states import EDGES, Edges

HEAD = """# State machines

Written by `python -m scheduler.core.model.diagrams` from `scheduler/core/model/states.py`: do not
edit. Only `portal.audit.transitions.advance` changes a status, and it refuses a change without an
arrow.
"""
NOTES = {
    "job": "A job goes back to `queued` if it is preempted or has a retry left.",
    "replica": "What the node last reported. A lost replica may still be reported as ended.",
    "allocation": "`released` only once the container is gone for certain, or the node is retired.",
    "slice": "In use is not a state: a slice is in use while it has a live allocation.",
    "node": "Whether a node accepts new jobs is a separate flag (cordon), not a state.",
}


def page() -> str:
    """The page. The same tables give the same bytes."""
    sections = [
        f"## {noun.capitalize()}\n\n{NOTES[noun]}\n\n{diagram(edges)}"
        for noun, edges in EDGES.items()
    ]
    return "\n".join([HEAD, *sections])


def diagram(edges: Edges) -> str:
    """One Mermaid block. The first state of a table is the initial one."""
    order = list(edges)
    arrows = [f"    [*] --> {order[0]}"]
    for old, targets in edges.items():
        arrows += [f"    {old} --> {new}" for new in sorted(targets, key=order.index)]
        if not targets:
            arrows.append(f"    {old} --> [*]")
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```", ""])


if __name__ == "__main__":
    sys.stdout.write(page())
