"""The panel "What runs" of the request page: what each replica would be started with."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.submission.launch_preview import LaunchedReplica, LaunchPreview
from portal.web.wording.messages import message_text


@dataclass(frozen=True, slots=True)
class LaunchPart:
    """What is started, of all replicas or of one."""

    title: str
    command: str
    """As a shell would read it; empty for none of its own."""
    environment: list[tuple[str, str]]
    files: list[tuple[str, str]]
    """Path and text."""
    is_image_program: bool = False
    """The image runs as it is."""


@dataclass(frozen=True, slots=True)
class LaunchPanel:
    parts: list[LaunchPart]
    more: str
    """How many replicas are left out; empty if none."""
    sharing: str = ""
    """How replicas on one node share a container; empty where they do not."""


def launch_panel(preview: LaunchPreview) -> LaunchPanel:
    title = _container_title if preview.joined_replicas > 1 else _replica_title
    sharing = message_text(preview.sharing)
    if len(preview.replicas) == 1:
        (only,) = preview.replicas
        return LaunchPanel([_part(title(only), preview)], "", sharing)
    every = _("Every container") if preview.joined_replicas > 1 else _("Every replica")
    parts = [_part(every, preview)]
    parts += [_part(title(each), each) for each in preview.replicas]
    more = preview.omitted_replicas
    text = ngettext("and %(n)s more replica", "and %(n)s more replicas", more)
    return LaunchPanel(parts, text % {"n": more} if more > 0 else "", sharing)


def _container_title(replica: LaunchedReplica) -> str:
    if not replica.node:
        return _("Container %(rank)s") % {"rank": replica.rank}
    return _("Container %(rank)s on %(node)s") % {"rank": replica.rank, "node": replica.node}


def _replica_title(replica: LaunchedReplica) -> str:
    if not replica.node:
        return _("Replica %(rank)s") % {"rank": replica.rank}
    return _("Replica %(rank)s on %(node)s") % {"rank": replica.rank, "node": replica.node}


def _part(title: str, started: LaunchPreview | LaunchedReplica) -> LaunchPart:
    environment, files = _sorted(started.environment), _sorted(started.files)
    is_image_program = isinstance(started, LaunchPreview) and started.is_image_program
    return LaunchPart(title, shlex.join(started.command), environment, files, is_image_program)


def _sorted(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(texts.items())
