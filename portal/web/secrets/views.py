"""Secrets as pages: their names, a form that sets one, and a question before one is deleted."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from portal.accounts.models import Project
from portal.accounts.selectors import is_project_admin
from portal.errors import Refused
from portal.job_secrets.selectors import secrets_of
from portal.job_secrets.services import secret_delete, secret_set
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import working_project_or_404
from portal.web.secrets.forms import SecretSetForm
from portal.web.wording.messages import refusal_text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("value")
@login_required
def secrets(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The reader's own."""
    return _secrets(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("value")
@login_required
def project_secrets(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """Those of a project, for its members; its admins change them."""
    return _secrets(request, working_project_or_404(request.user, slug))


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def delete(request: AuthenticatedHttpRequest, secret: str) -> HttpResponse:
    return _delete(request, None, secret)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def project_delete(request: AuthenticatedHttpRequest, slug: str, secret: str) -> HttpResponse:
    project = working_project_or_404(request.user, slug)
    if not is_project_admin(request.user, project.pk):
        raise Http404
    return _delete(request, project, secret)


@sensitive_variables("form")
def _secrets(request: AuthenticatedHttpRequest, project: Project | None) -> HttpResponse:
    may_change = project is None or is_project_admin(request.user, project.pk)
    if request.method != "POST":
        return _page(request, project, SecretSetForm(), may_change=may_change)
    if not may_change:
        raise Http404
    form = SecretSetForm(request.POST)
    if form.is_valid():
        try:
            row = secret_set(actor=request.user, project=project, **form.cleaned_data)
        except Refused as refused:
            field = refused.field if refused.field in form.fields else "name"
            form.add_error(field, refusal_text(refused))
        else:
            text = _("%(name)s is set. Jobs that start from now on get this value")
            messages.success(request, text % {"name": row.name})
            return redirect(_address(project))
    return _page(request, project, form, may_change=may_change, status=400)


def _delete(request: AuthenticatedHttpRequest, project: Project | None, name: str) -> HttpResponse:
    row = secrets_of(project or request.user).filter(name=name).first()
    if row is None:
        raise Http404
    if request.method == "POST":
        secret_delete(actor=request.user, project=project, name=name)
        messages.success(request, _("%(name)s is deleted") % {"name": name})
        return redirect(_address(project))
    context = {"secret": row, "project": project, "address": _address(project)}
    return render(request, "web/secrets/delete.html", context)


def _page(
    request: AuthenticatedHttpRequest,
    project: Project | None,
    form: SecretSetForm,
    *,
    may_change: bool,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "secrets": list(secrets_of(project or request.user)),
        "project": project,
        "form": form,
        "may_change": may_change,
        "now": timezone.now(),
    }
    return render(request, "web/secrets/list.html", context, status=status)


def _address(project: Project | None) -> str:
    return (
        reverse("web:project_secrets", args=[project.slug]) if project else reverse("web:secrets")
    )
