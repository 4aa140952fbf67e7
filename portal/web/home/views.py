"""Home: the user's running, waiting and ended jobs, their quotas, and what is free."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render

from portal.web.home.context import HomeScope, home_context, memberships_of
from portal.web.home.stream import stream_address
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_choice import chosen_project


@login_required
def home(request: AuthenticatedHttpRequest) -> HttpResponse:
    memberships = memberships_of(request.user)
    chosen = chosen_project(request, {each.project.slug for each in memberships})
    context = home_context(request.user, HomeScope(memberships, chosen))
    context["stream"] = stream_address(context)
    return render(request, "web/home.html", context)
