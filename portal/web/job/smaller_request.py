"""What an ended job should ask for next time: less memory, if it was measured to use less."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.inventory.boards import cluster_boards
from portal.jobs.models import Attempt, Job
from portal.telemetry.used_memory import used_memory
from portal.web.request.memory_sizes import GIB_MIB, sizes_of
from portal.web.wording.labels import NBSP
from scheduler.core.devices.options import device_options
from scheduler.core.model.snapshot import DeviceRequest
from scheduler.core.model.states import JobStatus

# Runs differ, and memory becomes fragmented: a quarter more than was used.
SPARE = 1.25
WHOLE_RUNS = frozenset({JobStatus.SUCCEEDED, JobStatus.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class SmallerRequest:
    """A sentence, and the request form filled in."""

    sentence: str
    label: str
    address: str


def smaller_request(job: Job, attempt: Attempt) -> SmallerRequest | None:
    """Of a job that ran to its end with one device for each replica; None where no smaller device
    would do. Two queries if it was measured."""
    device: dict[str, Any] = job.request.get("device", {})
    is_single = "mig" in device or "memory" in device or device.get("gpus") == 1
    if JobStatus(job.status) not in WHOLE_RUNS or not is_single:
        return None
    used = used_memory(attempt)
    if used is None:
        return None
    models = list(device.get("models", ()))
    size = _enough_gb(used.used_mib, used.units, tuple(models))
    if not size:
        return None
    smaller = {"memory": f"{size}GiB"} | ({"models": models} if models else {})
    change = json.dumps({"device": smaller}, sort_keys=True)
    words = {
        "used": _gigabytes(used.used_mib),
        "total": _gigabytes(used.total_mib),
        "size": f"{size}{NBSP}GB",
    }
    sentence = ngettext(
        "It used at most %(used)s of the %(total)s of its device. Ask for %(size)s next time.",
        "None of its replicas used more than %(used)s of the %(total)s of its device. Ask for "
        "%(size)s next time.",
        job.replica_count,
    )
    return SmallerRequest(
        sentence=sentence % words,
        label=_("Request it with %(size)s") % words,
        address=f"{reverse('web:request')}?{urlencode({'like': job.label, 'change': change})}",
    )


def _enough_gb(used_mib: int, units: int, models: tuple[str, ...]) -> int:
    """The smallest size of the request form's cards that is enough, if its cheapest device costs
    less than `units`; else 0."""
    boards = [b for b in cluster_boards() if not models or b.model in models or b.key in models]
    sizes = sorted({gb for board in boards for gb in sizes_of(board)})
    enough = next((gb for gb in sizes if gb * GIB_MIB >= SPARE * used_mib), 0)
    request = DeviceRequest(memory_mib=enough * GIB_MIB, models=models)
    options = device_options(request, boards) if enough else []
    return enough if options and options[0].units < units else 0


def _gigabytes(mib: int) -> str:
    """As much as a sentence needs: "11 GiB", "0.4 GiB"."""
    amount = mib / GIB_MIB
    return f"{amount:.0f}{NBSP}GiB" if amount >= 10 else f"{amount:.1f}{NBSP}GiB"
