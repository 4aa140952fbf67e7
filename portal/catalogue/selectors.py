"""Read templates and image policies, and who may change a template."""

from collections.abc import Collection

from django.db.models import Case, F, Q, QuerySet, When

from agents.contract.image_reference import is_image_allowed
from agents.contract.message import Message
from portal.accounts.models import Membership, Project, User
from portal.accounts.selectors import WORKING_ROLES, is_project_admin, role_in
from portal.catalogue.models import ImagePolicy, ImageRule, Template
from portal.error_codes import ErrorCode
from portal.errors import Refused


def visible_templates(user: User, project: Project | None = None) -> QuerySet[Template]:
    """Shared templates first, then those of the user's projects, or of `project` alone. A platform
    admin sees every template."""
    rows = Template.objects.select_related("project")
    own = Q(project__isnull=True)
    if not user.is_platform_admin:
        own |= Q(project_id__in=Membership.objects.filter(user=user).values("project_id"))
        rows = rows.filter(own)
    if project is not None:
        rows = rows.filter(Q(project__isnull=True) | Q(project=project))
    return rows.order_by(F("project__slug").asc(nulls_first=True), "name", "id")


def usable_templates(
    user: User, projects: Collection[Project], first: Project | None, name: str = ""
) -> QuerySet[Template]:
    """Shared templates and those of `projects` whose names contain `name`. Those of the project
    `first` come first, then shared ones, then the rest."""
    rows = visible_templates(user).filter(Q(project__isnull=True) | Q(project__in=projects))
    rows = rows.filter(name__icontains=name) if name else rows
    rank = Case(When(project__isnull=True, then=1), When(project=first, then=0), default=2)
    return rows.order_by(rank, "project__slug", "name", "id")


def visible_template(user: User, pk: int) -> Template:
    """Raises Refused(not_found), alike for a template that does not exist and an invisible one."""
    row = visible_templates(user).filter(pk=pk).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such template, or you may not see it")
    return row


def may_change_template(user: User, template: Template) -> bool:
    """Admins of its project, its author while a member, and platform admins may."""
    if template.project_id is None:
        return user.is_platform_admin
    if is_project_admin(user, template.project_id):
        return True
    return template.author == user.username and role_in(user, template.project_id) in WORKING_ROLES


def image_policy_of(project: Project) -> ImagePolicy:
    """The project's policy; by default one that allows any image, with version 0."""
    try:
        return project.image_policy
    except ImagePolicy.DoesNotExist:
        return ImagePolicy(project=project, version=0)


def require_image_allowed(project: Project, image: str) -> None:
    """Raises Refused(image_not_listed) if the project has a list and no pattern of it matches."""
    policy = image_policy_of(project)
    if policy.rule != ImageRule.LISTED:
        return
    if is_image_allowed(image, policy.patterns):
        return
    allowed = ", ".join(policy.patterns) or "none"
    sentence = Message(
        "%(project)s may only use the images on its list: %(allowed)s",
        project=project.slug,
        allowed=allowed,
    )
    raise Refused(ErrorCode.IMAGE_NOT_LISTED, sentence, "image")
