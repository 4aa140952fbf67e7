"""Volumes: who may use them, the nodes that have them, their sizes, and the jobs that use them."""

from dataclasses import dataclass, field

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_of
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.volumes.models import Volume
from portal.volumes.selectors import (
    VolumeState,
    node_roots,
    visible_volume,
    visible_volumes,
    volume_state,
    with_use_counts,
)
from portal.volumes.services import VolumeValues, volume_create, volume_delete, volume_update
from portal.web.console.access import platform_admins_only
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text
from scheduler.core.request.quantities import memory_words

MIB_PER_GIB = 1 << 10
FIELDS = ("name", "root", "subpath", "description", "projects", "quota_gib", "quota_files")


@dataclass(slots=True)
class VolumeForm:
    """What was typed and what is wrong with it, by field."""

    values: dict[str, str]
    read_only: bool = False
    version: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    error: str = ""
    """Of no field."""


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """A line of the list."""

    state: VolumeState
    used: str
    quota: str
    live_uses: int


@platform_admins_only
def volumes(request: AuthenticatedHttpRequest) -> HttpResponse:
    roots = node_roots()
    found = with_use_counts(visible_volumes(request.user))
    rows = [_row(volume_state(row, roots), row.live_uses) for row in found]  # type: ignore[attr-defined]
    title = ngettext("%(n)s volume", "%(n)s volumes", len(rows)) % {"n": len(rows)}
    context = {"rows": rows, "headline": title, "roots": sorted({each.root for each in roots})}
    return render(request, "web/console/volumes.html", context)


@platform_admins_only
def volume_new(request: AuthenticatedHttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request, VolumeForm(dict.fromkeys(FIELDS, "")))
    form = _read(request)
    place = {name: form.values[name].strip() for name in ("name", "root", "subpath")}
    try:
        row = volume_create(actor=request.user, **place, values=_values(request.user, form))
    except Refused as refused:
        return _refused(request, form, refused)
    messages.success(request, _("Volume %(name)s is there for new jobs") % {"name": row.name})
    return redirect("web:volumes")


@platform_admins_only
def volume(request: AuthenticatedHttpRequest, volume: str) -> HttpResponse:
    try:
        row = visible_volume(request.user, volume)
    except Refused as refused:
        raise Http404 from refused
    if request.method != "POST":
        return _page(request, _form_of(row), row)
    form = _read(request)
    form.values |= {"name": row.name, "root": row.root, "subpath": row.subpath}
    try:
        if request.POST.get("step") == "delete":
            volume_delete(volume=row, actor=request.user)
            done = _("Volume %(name)s is deleted. Its files are where they were")
        else:
            values = _values(request.user, form)
            volume_update(volume=row, actor=request.user, values=values, version=form.version)
            done = _("Volume %(name)s is saved")
    except Refused as refused:
        return _refused(request, form, refused, row)
    messages.success(request, done % {"name": row.name})
    return redirect("web:volumes")


def _row(state: VolumeState, live_uses: int) -> VolumeRow:
    row = state.volume
    sizes = [memory_words(row.quota_mib)] if row.quota_mib else []
    if row.quota_files:
        files = ngettext("%(n)s file", "%(n)s files", row.quota_files)
        sizes.append(files % {"n": row.quota_files})
    used = "" if state.used_mib is None else memory_words(state.used_mib)
    return VolumeRow(state, used, ", ".join(sizes), live_uses)


def _page(
    request: AuthenticatedHttpRequest,
    form: VolumeForm,
    row: Volume | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    roots = sorted({each.root for each in node_roots()})
    projects = projects_of(request.user).filter(archived=False).order_by("slug")
    context = {
        "form": form,
        "row": row,
        "roots": roots,
        "slugs": list(projects.values_list("slug", flat=True)),
        "is_stale": status == 412,
    }
    if row is not None and status == 412:
        form.version = row.version
    return render(request, "web/console/volume.html", context, status=status)


def _refused(
    request: AuthenticatedHttpRequest,
    form: VolumeForm,
    refused: Refused,
    row: Volume | None = None,
) -> HttpResponse:
    name = "quota_gib" if refused.field == "quota_mib" else refused.field
    if name in (*form.values, "read_only"):
        form.errors[name] = refusal_text(refused)
    else:
        form.error = refusal_text(refused)
    return _page(request, form, row, status=refused.status)


def _form_of(row: Volume) -> VolumeForm:
    values = {
        "name": row.name,
        "root": row.root,
        "subpath": row.subpath,
        "description": row.description,
        "projects": " ".join(project.slug for project in row.projects.all()),
        "quota_gib": str(row.quota_mib // MIB_PER_GIB or ""),
        "quota_files": str(row.quota_files or ""),
    }
    return VolumeForm(values, row.read_only, row.version)


def _read(request: AuthenticatedHttpRequest) -> VolumeForm:
    values = {name: request.POST.get(name, "")[:20_000] for name in FIELDS}
    version = request.POST.get("version", "")
    number = int(version) if version.isdecimal() and len(version) < 10 else 0
    return VolumeForm(values, "read_only" in request.POST, number)


def _values(user: User, form: VolumeForm) -> VolumeValues:
    """Raises Refused(project_unknown, limit_invalid)."""
    return VolumeValues(
        projects=_projects(user, form.values["projects"]),
        description=form.values["description"],
        read_only=form.read_only,
        quota_mib=_number(form, "quota_gib") * MIB_PER_GIB,
        quota_files=_number(form, "quota_files"),
    )


def _projects(user: User, text: str) -> tuple[Project, ...]:
    slugs = set(text.replace(",", " ").split())
    found = tuple(projects_of(user).filter(slug__in=slugs))
    if len(found) < len(slugs):
        sentence = "Write the short names of projects, separated by blanks"
        raise Refused(ErrorCode.PROJECT_UNKNOWN, sentence, "projects")
    return found


def _number(form: VolumeForm, name: str) -> int:
    text = form.values[name].strip() or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 13):
        raise Refused(ErrorCode.LIMIT_INVALID, "Write a number from 0, for no limit", name)
    return int(text)
