"""The sensor readings under a node's map: `{% sensors node.name %}`."""

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("web/cluster/sensors.html", takes_context=True)
def sensors(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Empty if the node has sent no sample."""
    return {"node": node, "rows": context["sensors"].get(node, [])}
