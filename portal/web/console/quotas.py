"""A limit is changed in two steps: what it would do is shown first, and then it is saved."""

from dataclasses import dataclass, field

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.planning.quota_effect import QuotaEffect, quota_effect
from portal.quotas.models import Quota
from portal.quotas.services import MAX_LIMIT_UNITS, MODEL, quota_set
from portal.web.console.access import administered_project_or_404
from portal.web.console.amounts import GPU, format_amount, parse_amount
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

PROJECT_FIELDS = ("limit", "borrow", "lend")
COLUMNS = {"limit": "limit_units", "borrow": "borrow_units", "lend": "lend_units"}


@dataclass(slots=True)
class QuotaForm:
    """What was typed, by field; what is wrong with it; and the units of what is right."""

    project: Project
    user: str
    model: str
    version: int
    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """Users borrow and lend with their project."""
        return PROJECT_FIELDS[:1] if self.user else PROJECT_FIELDS


@login_required
def quota(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """A limit of the project (platform admins) or of a user in it (whoever runs the project)."""
    by = request.user
    project = administered_project_or_404(by, slug)
    given = request.POST if request.method == "POST" else request.GET
    user, model = given.get("user", "").strip()[:150], given.get("model", "").strip()[:128]
    if not user and not by.is_platform_admin:
        raise Http404
    if request.method != "POST":
        return _page(request, _fresh(project, user, model))
    form = _read(request, project, user, model)
    if form.errors:
        return _page(request, form, status=400)
    who = User.objects.filter(username=user, is_active=True).first() if user else None
    effect = _effect(form, who)
    if request.POST.get("step") != "save":
        return _page(request, form, effect)
    try:
        _save(form, who, by)
    except Refused as refused:
        if refused.status == 412:
            return _page(request, _newer(form), effect, stale=_stale(form), status=412)
        form.errors[refused.field.removesuffix("_units") or "limit"] = refusal_text(refused)
        return _page(request, form, status=refused.status)
    messages.success(request, _("The limit is saved"))
    return redirect("web:project", project.slug)


def _page(
    request: HttpRequest,
    form: QuotaForm,
    effect: QuotaEffect | None = None,
    stale: dict[str, object] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {"form": form, "effect": effect, "stale": stale, "project": form.project}
    return render(request, "web/console/quota.html", context, status=status)


def _row(project: Project, user: str, model: str) -> Quota | None:
    rows = Quota.objects.filter(project=project, model=model)
    if user:
        return rows.filter(user__username=user).first()
    return rows.filter(user__isnull=True).first()


def _fresh(project: Project, user: str, model: str) -> QuotaForm:
    row = _row(project, user, model)
    units = {name: getattr(row, column) if row else 0 for name, column in COLUMNS.items()}
    values = {name: format_amount(units[name], GPU) for name in PROJECT_FIELDS}
    if row is None:
        values["limit"] = ""
    return QuotaForm(project, user, model, row.version if row else 0, values)


def _read(request: HttpRequest, project: Project, user: str, model: str) -> QuotaForm:
    version = request.POST.get("version", "")
    number = int(version) if version.isdecimal() and len(version) < 10 else 0
    values = {name: request.POST.get(name, "")[:40] for name in PROJECT_FIELDS}
    form = QuotaForm(project, user, model, number, values)
    for name in form.fields:
        try:
            form.units[name] = parse_amount(values[name] or ("" if name == "limit" else "0"), GPU)
        except ValueError as wrong:
            form.errors[name] = str(wrong)
            continue
        if form.units[name] > MAX_LIMIT_UNITS:
            form.errors[name] = _("At most 100,000 GPUs")
    if user and not User.objects.filter(username=user, is_active=True).exists():
        form.errors["user"] = _("There is no such user. Write the name they sign in with")
    if not MODEL.fullmatch(model):
        form.errors["model"] = _("Write a model of GPU, such as H200")
    return form


def _effect(form: QuotaForm, who: User | None) -> QuotaEffect:
    units = {COLUMNS[name]: value for name, value in form.units.items()}
    return quota_effect(project=form.project, user=who, model=form.model, **units)


def _save(form: QuotaForm, who: User | None, by: User) -> None:
    units = {COLUMNS[name]: value for name, value in form.units.items()}
    quota_set(
        project=form.project,
        user=who,
        model=form.model,
        actor=by.username,
        version=form.version,
        **units,
    )


def _newer(form: QuotaForm) -> QuotaForm:
    """What was typed, now against the present version: saving it again is a decision."""
    row = _row(form.project, form.user, form.model)
    form.version = row.version if row else 0
    return form


def _stale(form: QuotaForm) -> dict[str, object]:
    """The other version, and who made it."""
    theirs = _fresh(form.project, form.user, form.model)
    key = "/".join(filter(None, (form.project.slug, form.user, form.model)))
    line = AuditEntry.objects.filter(noun="quota", noun_id=key).first()
    rows = [(name, form.values[name], theirs.values[name]) for name in form.fields]
    return {"rows": rows, "by": line.actor if line else "", "at": line.at if line else None}
