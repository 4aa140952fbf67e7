"""Home: the user's running, waiting and ended jobs, their quota, and what is free."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render

from portal.web.home.context import home_context
from portal.web.http import AuthenticatedHttpRequest


@login_required
def home(request: AuthenticatedHttpRequest) -> HttpResponse:
    return render(request, "web/home.html", home_context(request.user))
