"""Projects: members, quotas, budgets, templates and their history.

Members read the page; project admins change members and the limits inside the project.
"""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from agents.contract.message import Message
from portal.accounts.models import Project, Role, User
from portal.accounts.selectors import WORKING_ROLES, projects_of, role_in
from portal.accounts.services import membership_remove, membership_set
from portal.availability.promises import current_promises
from portal.catalogue.selectors import image_policy_of, may_change_template, visible_templates
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.limits import stored_limits
from portal.quotas.figures import quota_figures
from portal.quotas.models import Budget
from portal.quotas.selectors import visible_quotas
from portal.submission.approvals import jobs_to_approve
from portal.web.console.budgets import budget_usages
from portal.web.console.history import project_history
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import administered_project_or_404, project_or_404
from portal.web.wording.messages import refusal_text

ROLES = [str(role) for role in Role]


@login_required
def projects(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The user's projects with their role, and what is held and promised of their quotas."""
    user = request.user
    quotas = [q for q in visible_quotas(user) if q.user_id is None and not q.model]
    promises = current_promises({q.project.slug for q in quotas}) if quotas else []
    figures = {quota.project_id: quota_figures(quota, promises) for quota in quotas}
    waiting: dict[int, int] = {}
    for project_id in jobs_to_approve(user).values_list("project_id", flat=True):
        waiting[project_id] = waiting.get(project_id, 0) + 1
    rows = [
        (project, figures.get(project.pk), waiting.get(project.pk, 0), _role(project, user))
        for project in projects_of(user)
    ]
    count = len(rows)
    title = ngettext("%(n)s project", "%(n)s projects", count) % {"n": count}
    return render(request, "web/console/projects.html", {"rows": rows, "headline": title})


@login_required
def project(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    return render_project(request, project_or_404(request.user, slug))


@login_required
@require_POST
def member(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """Add a member, change a role or remove a member."""
    user = request.user
    row = administered_project_or_404(user, slug)
    name, verb = request.POST.get("user", "").strip()[:150], request.POST.get("do", "set")
    try:
        target = _user(name)
        if verb == "remove":
            membership_remove(project=row, user=target, actor=user.username)
            text = _("%(user)s is no longer in %(project)s. Their jobs continue")
        else:
            membership_set(
                project=row,
                user=target,
                role=_read_role(request.POST.get("role", "")),
                actor=user.username,
            )
            text = _("%(user)s is now %(role)s of %(project)s")
    except Refused as refused:
        return render_project(request, row, typed=name, error=refusal_text(refused))
    names = {"user": target.username, "project": row.slug, "role": request.POST.get("role", "")}
    messages.success(request, text % names)
    return redirect("web:project", row.slug)


def render_project(
    request: AuthenticatedHttpRequest, row: Project, typed: str = "", error: str = ""
) -> HttpResponse:
    user = request.user
    role = None if user.is_platform_admin else role_in(user, row.pk)
    is_admin = user.is_platform_admin or role is Role.ADMIN
    budgets = Budget.objects.filter(project=row).select_related("project", "user")
    if not is_admin:
        budgets = budgets.filter(user__isnull=True) | budgets.filter(user=user)
    quotas = visible_quotas(user).filter(project=row).order_by("user__username", "model")
    promises = current_promises({row.slug})
    context = {
        "project": row,
        "is_admin": is_admin,
        "is_platform_admin": user.is_platform_admin,
        "may_use_secrets": is_admin or role in WORKING_ROLES,
        "quotas": [(quota, quota_figures(quota, promises)) for quota in quotas],
        "budgets": budget_usages(budgets.order_by("-ends_at", "pk"), timezone.now()),
        "members": row.memberships.select_related("user").order_by("user__username"),
        "roles": ROLES,
        "typed": typed,
        "error": error,
        "templates": [
            (template, may_change_template(user, template))
            for template in visible_templates(user).filter(project=row)
        ],
        "images": image_policy_of(row),
        "storage": stored_limits(row.pk),
        "history": project_history(row) if is_admin else [],
        "waiting": jobs_to_approve(user).filter(project=row).count(),
    }
    status = 400 if error else 200
    return render(request, "web/console/project.html", context, status=status)


def _role(project: Project, user: User) -> str:
    """The user's role, from the prefetched memberships; empty if they have none."""
    return next((m.role for m in project.memberships.all() if m.user_id == user.pk), "")


def _read_role(word: str) -> Role:
    if word not in ROLES:
        sentence = Message("Choose one of these roles: %(roles)s", roles=", ".join(ROLES))
        raise Refused(ErrorCode.ROLE_INVALID, sentence, "role")
    return Role(word)


def _user(name: str) -> User:
    row = User.objects.filter(username=name, is_active=True).first()
    if row is None:
        sentence = Message(
            "No user named %(name)s. Enter the name they sign in with", name=repr(name)
        )
        raise Refused(ErrorCode.NOT_FOUND, sentence, "user")
    return row
