"""Devices and their numbers in the reader's words."""

from django.utils.translation import gettext as _

from portal.advice.devices import ClusterDevice
from portal.advice.fits import DeviceFit
from portal.web.request.device_kinds import board_size
from portal.web.wording.labels import gigabytes


def device_words(fit: DeviceFit) -> str:
    """ "a 35 GB slice of one H200", "4 × H200", "2 nodes with 8 × H200 each"."""
    device = fit.device
    if device.profile:
        words = {"size": gigabytes(device.profile.name), "model": device.model}
        return _("a %(size)s slice of one %(model)s") % words
    each = fit.gpus // fit.nodes
    if fit.nodes > 1:
        words = {"nodes": str(fit.nodes), "gpus": str(each), "model": device.model}
        return _("%(nodes)s nodes with %(gpus)s × %(model)s each") % words
    return f"{each} × {device.model}"


def device_name(device: ClusterDevice) -> str:
    """ "35 GB slice, H200", "H200, 141 GB"."""
    if device.profile:
        words = {"size": gigabytes(device.profile.name), "model": device.model}
        return _("%(size)s slice, %(model)s") % words
    return f"{device.model}, {board_size(device.board)}"
