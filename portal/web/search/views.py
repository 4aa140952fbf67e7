"""The search page, and the options that the command palette shows while its user types."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.web.http import AuthenticatedHttpRequest
from portal.web.search.matches import search_context


@login_required
@require_safe
def search(request: AuthenticatedHttpRequest) -> HttpResponse:
    context = search_context(request.user, request.GET.get("q", ""))
    return render(request, "web/search.html", context)


@login_required
@require_safe
def search_options(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The same matches as options of a listbox."""
    context = search_context(request.user, request.GET.get("q", ""))
    return render(request, "web/search/options.html", context)
