"""Home: the user's running, waiting and ended jobs, their quotas, and what is free."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render

from portal.web.home.context import home_context
from portal.web.home.stream import stream_address
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_choice import project_choice


@login_required
def home(request: AuthenticatedHttpRequest) -> HttpResponse:
    context = home_context(request.user, project_choice(request))
    context["stream"] = stream_address(context)
    return render(request, "web/home.html", context)
