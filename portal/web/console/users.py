"""Everybody with an account: the list with its search, and a new one."""

from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from portal.accounts.models import Project, Role, User
from portal.accounts.people import platform_admin_set, user_add
from portal.accounts.selectors import users
from portal.accounts.services import membership_set
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.web.console.access import platform_admins_only
from portal.web.console.projects import ROLES
from portal.web.console.user_page import render_link
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

STATES = {
    "admins": gettext_lazy("Platform admins"),
    "unseen": gettext_lazy("Never signed in"),
    "alone": gettext_lazy("In no project"),
    "inactive": gettext_lazy("Deactivated"),
}
PAGE_SIZE = 50
FIELDS = ("username", "full_name", "email", "project", "role", "is_platform_admin")


@platform_admins_only
@require_safe
def user_list(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()[:150]
    state = request.GET.get("state", "")
    page = Paginator(_in_state(users(words), state), PAGE_SIZE).get_page(request.GET.get("page"))
    count = page.paginator.count
    context = {
        "page": page,
        "q": words,
        "state": state if state in STATES else "",
        "states": STATES.items(),
        "now": timezone.now(),
        "headline": ngettext("%(n)s user", "%(n)s users", count) % {"n": f"{count:,}"},
    }
    return render(request, "web/console/users.html", context)


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_variables("secret")
def new(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Add an account, if wanted with a project; the answer shows the link for its first password,
    this once."""
    if request.method != "POST":
        return _form(request, {"role": str(Role.MEMBER)}, {})
    values = {name: request.POST.get(name, "").strip()[:254] for name in FIELDS}
    try:
        user = _add(values, actor=request.user.username)
    except Refused as refused:
        errors = {refused.field or "username": refusal_text(refused)}
        return _form(request, values, errors, status=refused.status)
    return render_link(request, user)


def _add(values: dict[str, str], *, actor: str) -> User:
    """All or nothing. Raises Refused."""
    with transaction.atomic():
        user = user_add(
            username=values["username"],
            email=values["email"],
            full_name=values["full_name"],
            actor=actor,
        )
        if values["project"]:
            project = _project(values["project"])
            role = Role(values["role"]) if values["role"] in ROLES else Role.MEMBER
            membership_set(project=project, user=user, role=role, actor=actor)
        if values["is_platform_admin"] == "on":
            platform_admin_set(user=user, is_platform_admin=True, actor=actor)
    return user


def _project(slug: str) -> Project:
    row = Project.objects.filter(slug=slug, archived=False).first()
    if row is None:
        sentence = "There is no such project any more, or it is archived. Choose another one"
        raise Refused(ErrorCode.NOT_FOUND, sentence, "project")
    return row


def _form(
    request: HttpRequest, values: dict[str, str], errors: dict[str, str], status: int = 200
) -> HttpResponse:
    projects = Project.objects.filter(archived=False).order_by("slug")
    context = {"values": values, "errors": errors, "projects": projects, "roles": ROLES}
    return render(request, "web/console/user_new.html", context, status=status)


def _in_state(rows: QuerySet[User], state: str) -> QuerySet[User]:
    if state == "admins":
        return rows.filter(is_superuser=True, is_active=True)
    if state == "unseen":
        return rows.filter(last_login=None, is_active=True)
    if state == "alone":
        return rows.filter(memberships=None, is_active=True)
    if state == "inactive":
        return rows.filter(is_active=False)
    return rows
