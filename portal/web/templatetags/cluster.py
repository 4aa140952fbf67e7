"""What a node is, in a line above its map: `{% about node.name %}`."""

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.inventory.digest import NodeDigest
from portal.web.templatetags.tessera import icon
from portal.web.words import node_badge

register = template.Library()


@register.inclusion_tag("web/cluster/about.html", takes_context=True)
def about(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Boards, what is held, labels."""
    return {"digest": context["digests"].get(node)}


@register.simple_tag
def digest_badge(node: NodeDigest) -> SafeString:
    """Whether it takes work, as icon, word and colour."""
    found = node_badge(node.status, schedulable=node.schedulable, blocked=node.blocked)
    return format_html(
        '<span class="status {}">{}{}</span>', found.cls, icon(found.icon), found.word
    )
