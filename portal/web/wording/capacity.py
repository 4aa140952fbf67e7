"""What is free now, in words: the same on Home, the Cluster page and the Queue page."""

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.moments import write_moment
from agents.contract.units import UNITS_PER_GPU, as_gpus
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.availability.counts import Availability, Category, DeviceCount


def capacity_line(cluster: ClusterAvailability) -> str:
    """How many GPUs are free, out of how many in service, and how much in parts of others."""
    total = cluster.total
    if not total.gpus:
        return _("No node has reported its GPUs yet.")
    if not total.in_service:
        return _("No GPU is in service.")
    counts = {"free": f"{total.free_gpus:,}", "gpus": f"{total.in_service:,}"}
    line = _with_parts(_("%(free)s of %(gpus)s GPUs free") % counts, total)
    return f"{line}. {counted_at(cluster)}" if cluster.may_lag else line


def counted_at(cluster: ClusterAvailability) -> str:
    """When it was counted, in a sentence; empty where nothing has happened since."""
    if not cluster.may_lag:
        return ""
    return _("Counted at %(time)s.") % {"time": write_moment(cluster.at, seconds=True)}


def free_headline(total: Availability) -> str:
    """The title of the Cluster page."""
    free = total.free_gpus
    if not free and not open_part_units(total):
        return _("Nothing is free now")
    gpus = ngettext("%(n)s GPU", "%(n)s GPUs", free) % {"n": f"{free:,}"}
    return _with_parts(_("%(what)s free now") % {"what": gpus}, total)


def open_part_units(total: Availability) -> int:
    """Units that are free or recarvable, but not as whole GPUs."""
    units = total.units[Category.FREE] + total.units[Category.RECARVABLE]
    return max(0, units - total.free_gpus * UNITS_PER_GPU)


def device_breakdown(count: DeviceCount) -> str:
    """How many of the available devices exist, would be carved, or need idle slices deleted."""
    parts = []
    if count.ready:
        parts.append(_("%(ready)s ready") % {"ready": f"{count.ready:,}"})
    if count.carvable:
        parts.append(_("%(carvable)s to carve") % {"carvable": f"{count.carvable:,}"})
    if count.recarvable:
        parts.append(_("%(n)s by re-carving") % {"n": f"{count.recarvable:,}"})
    return ", ".join(parts)


def _with_parts(line: str, total: Availability) -> str:
    units = open_part_units(total)
    if not units:
        return line
    parts = _("%(gpus)s more in parts of GPUs") % {"gpus": as_gpus(units, round_up=False)}
    return _("%(one)s, %(other)s") % {"one": line, "other": parts}
