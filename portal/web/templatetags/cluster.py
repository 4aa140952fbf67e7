"""Tags of the Cluster page: a node's summary line, its status, how full it is, and its map.

What a page has hundreds of is written in Python: in a template each value costs some ten
microseconds.
"""

from functools import lru_cache
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.contract.units import UNITS_PER_GPU, as_gpus
from portal.availability.nodes import NodeSummary
from portal.web.cluster.cell import PATTERNS, Cell
from portal.web.cluster.filter import NodeGroup
from portal.web.cluster.map import GpuRow
from portal.web.templatetags.tessera import as_status, fit_to_width
from portal.web.wording.labels import node_badge
from scheduler.core.availability.counts import Category

register = template.Library()
# Width of the occupancy bar, in SVG user units.
BAR = 112
# Its cells, with the look of the map's.
BAR_PARTS: dict[str, tuple[Category, ...]] = {
    "other": (Category.HELD, Category.SHARED, Category.RESERVED),
    "idle": (Category.RECARVABLE,),
    "free": (Category.FREE,),
    "dead": (Category.UNUSABLE, Category.NODE_UNAVAILABLE),
    "fault": (Category.OUT_OF_SERVICE,),
}
CURRENT = SafeString(' aria-current="true"')
CELL = (
    '<a href="{}"{}><title>{}</title><rect class="{}" x="{}" y="0.5" width="{}" height="{}" '
    'rx="{}"{}/>{}<text x="{}" y="19" class="b {}">{}</text><text x="{}" y="34" class="{}">{}'
    "</text></a>"
)


@register.inclusion_tag("web/cluster/node_summary.html", takes_context=True)
def node_summary(context: dict[str, Any], node: str) -> dict[str, Any]:
    """Boards, GPUs in use and labels, in a line above the map: `{% node_summary node.name %}`."""
    return {"counts": context["availability"].get(node)}


@register.simple_tag
def availability_badge(node: NodeSummary) -> SafeString:
    """Whether the node takes work, as icon, word and colour."""
    badge = node_badge(
        node.status, schedulable=node.schedulable, blocked=node.blocked, holding=node.holding
    )
    return as_status(badge)


@register.simple_tag
def occupancy_bar(counts: NodeSummary | NodeGroup) -> SafeString:
    """A bar of a node's or a group's GPUs: in use, idle, free, unusable and out of service."""
    total = counts.total
    if not total.gpus:
        return SafeString("")
    units = tuple(sum(total.units[of] for of in parts) for parts in BAR_PARTS.values())
    words = (total.free_gpus, total.out_of_service, counts.held_units)
    return _bar(total.gpus, units, words, get_language() or "")


@lru_cache(4_096)
def _bar(
    gpus: int, units_of: tuple[int, ...], numbers: tuple[int, int, int], _language: str
) -> SafeString:
    """Cached: most nodes of a cluster are as full as some other one."""
    total = gpus * UNITS_PER_GPU
    free, out, held = numbers
    parts = dict(zip(BAR_PARTS, units_of, strict=True))
    at, drawn = 0, []
    for cls, units in parts.items():
        if units:
            x, width = round(at * BAR / total, 1), round(units * BAR / total, 1)
            drawn.append((cls, x, width, PATTERNS.get(cls, "none")))
            at += units
    rect = '<rect class="{}" x="{}" y="0.5" width="{}" height="9" fill="{}"/>'
    words = {"held": as_gpus(held), "free": free, "out": out}
    label = _("%(held)s in use, %(free)s free, %(out)s out of service") % words
    bar = '<svg class="map bar" viewBox="0 0 {} 10" role="img" aria-label="{}">{}</svg>'
    return format_html(bar, BAR, label, format_html_join("", rect, drawn))


@register.simple_tag
def map_cell(cell: Cell) -> SafeString:
    """A cell of the map with its two lines of text, as a link to its job or its details."""
    selected, current = (" sel", CURRENT) if cell.is_selected else ("", "")
    fill = format_html(' fill="{}"', cell.fill) if cell.fill else ""
    joints = format_html_join(
        "", '<path class="grout" d="M74 {}h398"/>', ((y,) for y in cell.joints)
    )
    x, ink = cell.text_x, cell.ink
    return format_html(
        CELL,
        cell.href,
        current,
        cell.title,
        f"{cell.cls}{selected}",
        cell.x,
        cell.width,
        cell.height,
        cell.radius,
        fill,
        joints,
        *(x, ink, fit_to_width(cell.label, cell.width)),
        *(x, ink, fit_to_width(cell.sublabel, cell.width)),
    )


@register.simple_tag
def map_pips(row: GpuRow) -> SafeString:
    """A mark for each compute slice of a GPU, filled where the slice is allocated."""
    return _pips(row.pips)


@lru_cache(256)
def _pips(pips: tuple[tuple[float, bool], ...]) -> SafeString:
    """Cached: a board has few ways to be allocated."""
    rect = '<rect class="pip{}" x="{}" y="11" width="6" height="10" rx="1"/>'
    return format_html_join("", rect, ((" on" if on else "", x) for x, on in pips))


@register.filter
def thousands(count: int) -> str:
    """ "8,000", with a comma in every language."""
    return f"{count:,}"
