"""The table of sensors under a node's map: `{% sensors node.name %}`."""

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("web/sensors.html", takes_context=True)
def sensors(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Nothing where the node has sent no sample."""
    return {"node": node, "rows": context["sensors"].get(node, [])}
