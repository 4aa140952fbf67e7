"""How a node's GPUs are joined, under its map: `{% joined node.name %}`."""

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("web/joined.html", takes_context=True)
def joined(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Nothing where the node has not told. All paths only on the node's own page."""
    is_whole = not context.get("half")
    return {"node": node, "joined": context["joined"].get(node), "is_whole": is_whole}
