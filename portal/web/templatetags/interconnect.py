"""How a node's GPUs are connected, under its map: `{% interconnect node.name %}`."""

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("web/cluster/interconnect.html", takes_context=True)
def interconnect(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Empty if the node has reported no topology. Only the node's own page shows the paths."""
    return {
        "node": node,
        "interconnect": context["interconnects"].get(node),
        "with_paths": not context.get("is_compact"),
    }
