"""Registries of a project as pages: a list, a form that sets one, a question before a deletion."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from portal.accounts.models import Project
from portal.accounts.selectors import is_project_admin
from portal.errors import Refused
from portal.registries.selectors import registries_of
from portal.registries.services import registry_delete, registry_set
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import working_project_or_404
from portal.web.registries.forms import RegistrySetForm
from portal.web.wording.messages import refusal_text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("password")
@sensitive_variables("form")
@login_required
def registries(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """For the project's members; its admins change them."""
    project = working_project_or_404(request.user, slug)
    may_change = is_project_admin(request.user, project.pk)
    if request.method != "POST":
        return _page(request, project, RegistrySetForm(), may_change=may_change)
    if not may_change:
        raise Http404
    form = RegistrySetForm(request.POST)
    if form.is_valid():
        values = dict(form.cleaned_data)
        address = values.pop("registry")
        try:
            row = registry_set(actor=request.user, project=project, address=address, **values)
        except Refused as refused:
            field = refused.field if refused.field in form.fields else "registry"
            form.add_error(field, refusal_text(refused))
        else:
            text = _("%(registry)s is set. Jobs that start from now on pull with it")
            messages.success(request, text % {"registry": row.address})
            return redirect("web:registries", project.slug)
    return _page(request, project, form, may_change=may_change, status=400)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def delete(request: AuthenticatedHttpRequest, slug: str, registry: str) -> HttpResponse:
    project = working_project_or_404(request.user, slug)
    row = registries_of(project).filter(address=registry).first()
    if row is None or not is_project_admin(request.user, project.pk):
        raise Http404
    if request.method == "POST":
        registry_delete(actor=request.user, project=project, address=row.address)
        messages.success(request, _("%(name)s is deleted") % {"name": row.address})
        return redirect("web:registries", project.slug)
    context = {"registry": row, "address": reverse("web:registries", args=[project.slug])}
    return render(request, "web/registries/delete.html", context)


def _page(
    request: AuthenticatedHttpRequest,
    project: Project,
    form: RegistrySetForm,
    *,
    may_change: bool,
    status: int = 200,
) -> HttpResponse:
    context = {
        "registries": list(registries_of(project)),
        "project": project,
        "form": form,
        "may_change": may_change,
    }
    return render(request, "web/registries/list.html", context, status=status)
