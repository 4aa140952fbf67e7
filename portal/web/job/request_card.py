"""The Request card of a job's page: what was asked for, in the reader's words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from portal.jobs.models import Job
from portal.web.request.choices import CHOICES
from portal.web.request.preview import cpus
from scheduler.core.request.quantities import memory_words, read_cpu_milli, read_memory_mib


@dataclass(frozen=True, slots=True)
class RequestCard:
    """`host`: CPUs and memory of each replica."""

    topology: str
    host: str
    priority: str


def request_card(job: Job) -> RequestCard:
    topology = _choice("topology", job.request.get("topology", ""))
    return RequestCard(topology, _host(job.request), _choice("priority", job.priority))


def _host(request: Mapping[str, Any]) -> str:
    if not {"cpu", "memory"} <= request.keys():
        return ""
    return _("%(cpu)s, %(memory)s of memory") % {
        "cpu": cpus(read_cpu_milli(request["cpu"])),
        "memory": memory_words(read_memory_mib(request["memory"])),
    }


def _choice(field: str, word: str) -> str:
    """A word of another version is shown as it is."""
    return str(CHOICES[field].get(word, word))
