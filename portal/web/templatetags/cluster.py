"""What a node is, in a line above its map: `{% about node.name %}`, and how full it is."""

from functools import lru_cache
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.contract.units import UNITS_PER_GPU, as_gpus
from portal.availability.nodes import NodeDigest
from portal.web.cluster.cell import PATTERNS
from portal.web.cluster.filter import Group
from portal.web.templatetags.tessera import icon
from portal.web.wording.labels import node_badge

register = template.Library()
# How wide the bar of `fullness` is, in SVG user units.
BAR = 112


@register.inclusion_tag("web/cluster/about.html", takes_context=True)
def about(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Boards, what is held, labels."""
    return {"digest": context["digests"].get(node)}


@register.simple_tag
def digest_badge(node: NodeDigest) -> SafeString:
    """Whether it takes work, as icon, word and colour."""
    found = node_badge(node.status, schedulable=node.schedulable, blocked=node.blocked)
    return _badge(found.cls, found.icon, str(found.word))


@lru_cache(256)
def _badge(cls: str, sign: str, word: str) -> SafeString:
    """The same few on a thousand lines."""
    return format_html('<span class="status {}">{}{}</span>', cls, icon(sign), word)


@register.simple_tag
def fullness(of: NodeDigest | Group) -> SafeString:
    """A bar of its GPUs: held, free and out of service; what is left of it is idle in parts."""
    if not of.gpus:
        return SafeString("")
    return _bar(of.gpus, of.free, of.out, of.held_units, get_language() or "")


@lru_cache(4_096)
def _bar(gpus: int, free: int, out: int, held: int, _language: str) -> SafeString:
    """Most nodes of a cluster look like some other one."""
    whole = gpus * UNITS_PER_GPU
    parts = {"free": free * UNITS_PER_GPU, "fault": out * UNITS_PER_GPU}
    other = min(held, whole - parts["fault"])
    parts = {"other": other, "idle": max(0, whole - other - sum(parts.values())), **parts}
    at, found = 0, []
    for cls, units in parts.items():
        if units:
            x, width = round(at * BAR / whole, 1), round(units * BAR / whole, 1)
            found.append((cls, x, width, PATTERNS.get(cls, "none")))
            at += units
    rect = '<rect class="{}" x="{}" y="0.5" width="{}" height="9" fill="{}"/>'
    words = {"held": as_gpus(held), "free": free, "out": out}
    told = _("%(held)s held, %(free)s free, %(out)s out of service") % words
    bar = '<svg class="map bar" viewBox="0 0 {} 10" role="img" aria-label="{}">{}</svg>'
    return format_html(bar, BAR, told, format_html_join("", rect, found))


@register.filter
def thousands(count: int) -> str:
    """ "8,000", as headlines have it."""
    return f"{count:,}"
