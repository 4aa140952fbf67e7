"""Changing a quota in two steps: the effect is shown first, then the limit is saved."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.accounts.models import Project
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.planning.quota_effect import QuotaEffect, quota_effect
from portal.quotas.models import Quota
from portal.quotas.services import MAX_LIMIT_UNITS, MODEL_PATTERN, quota_set
from portal.web.console.amounts import GPU, format_amount
from portal.web.console.form_fields import ActiveUserField, AmountField
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import administered_project_or_404
from portal.web.wording.messages import refusal_text

COLUMNS = {"limit": "limit_units", "borrow": "borrow_units", "lend": "lend_units"}


def _gpus(*, required: bool = False) -> AmountField:
    too_large = gettext_lazy("Enter at most 100,000 GPUs")
    return AmountField(unit=GPU, max_units=MAX_LIMIT_UNITS, too_large=too_large, required=required)


class QuotaForm(forms.Form):
    """The quota of a project, or of a user in it: users borrow and lend with their project."""

    user = ActiveUserField(required=False)
    model = forms.RegexField(
        MODEL_PATTERN,
        required=False,
        error_messages={"invalid": gettext_lazy("Enter a GPU model, such as H200")},
    )
    limit = _gpus(required=True)
    borrow = _gpus()
    lend = _gpus()

    def __init__(self, *args: Any, is_for_user: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        if is_for_user:
            del self.fields["borrow"], self.fields["lend"]

    @property
    def amounts(self) -> list[str]:
        """Names of the amount fields that this form has."""
        return [name for name in COLUMNS if name in self.fields]

    def units(self) -> dict[str, int]:
        """The cleaned amounts by column."""
        return {COLUMNS[name]: self.cleaned_data[name] for name in self.amounts}


@login_required
def quota(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """Platform admins change the limit of a project; project admins, the limit of a member."""
    project = administered_project_or_404(request.user, slug)
    params = request.POST if request.method == "POST" else request.GET
    user, model = params.get("user", "").strip()[:150], params.get("model", "").strip()[:128]
    if not user and not request.user.is_platform_admin:
        raise Http404
    if request.method != "POST":
        row = _row(project, user, model)
        initial = _amounts(row) | {"user": user, "model": model}
        form = QuotaForm(initial=initial, is_for_user=bool(user))
        return _page(request, project, form, version=row.version if row else 0)
    form = QuotaForm(request.POST, is_for_user=bool(user))
    version = _posted_version(request)
    if not form.is_valid():
        return _page(request, project, form, version=version, status=400)
    quota_of: dict[str, Any] = {
        "project": project,
        "user": form.cleaned_data["user"],
        "model": model,
        **form.units(),
    }
    effect = quota_effect(**quota_of)
    if request.POST.get("step") != "save":
        return _page(request, project, form, version=version, effect=effect)
    try:
        quota_set(**quota_of, actor=request.user.username, version=version)
    except Refused as refused:
        if refused.status == 412:
            return _stale_page(request, project, form, effect, _row(project, user, model))
        name = refused.field.removesuffix("_units")
        form.add_error(name if name in form.fields else "limit", refusal_text(refused))
        return _page(request, project, form, version=version, status=refused.status)
    messages.success(request, _("Limit saved"))
    return redirect("web:project", project.slug)


def _page(
    request: HttpRequest, project: Project, form: QuotaForm, *, status: int = 200, **context: Any
) -> HttpResponse:
    """Render the form with the `version` it is made from, and with its effect once it is known."""
    context |= {"form": form, "username": form["user"].value() or "", "project": project}
    return render(request, "web/console/quota.html", context, status=status)


def _stale_page(
    request: HttpRequest,
    project: Project,
    form: QuotaForm,
    effect: QuotaEffect,
    row: Quota | None,
) -> HttpResponse:
    """Show what was typed beside what is saved now; saving again replaces the latter."""
    saved = _amounts(row)
    names = (project.slug, (form["user"].value() or "").strip(), form.cleaned_data["model"])
    key = "/".join(filter(None, names))
    entry = AuditEntry.objects.filter(noun="quota", noun_id=key).first()
    stale = {
        "rows": [(name, form[name].value(), saved[name]) for name in form.amounts],
        "actor": entry.actor if entry else "",
        "at": entry.at if entry else None,
    }
    version = row.version if row else 0
    return _page(request, project, form, version=version, effect=effect, stale=stale, status=412)


def _posted_version(request: HttpRequest) -> int:
    """The version that the form was made from; 0 if it cannot be read."""
    text = request.POST.get("version", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _row(project: Project, user: str, model: str) -> Quota | None:
    rows = Quota.objects.filter(project=project, model=model)
    if user:
        return rows.filter(user__username=user).first()
    return rows.filter(user__isnull=True).first()


def _amounts(row: Quota | None) -> dict[str, str]:
    """The saved amounts as the form shows them; a new quota has no limit yet."""
    if row is None:
        return {"limit": "", "borrow": "0", "lend": "0"}
    return {name: format_amount(getattr(row, column), GPU) for name, column in COLUMNS.items()}
