"""Read webhooks: the user's own, and those of projects that the user is an admin of."""

from uuid import UUID

from django.db.models import Q, QuerySet

from portal.accounts.models import Membership, Role, User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.webhooks.models import Delivery, Endpoint


def visible_endpoints(user: User) -> QuerySet[Endpoint]:
    """The user's endpoints, and those for projects that the user is an admin of."""
    administered = Membership.objects.filter(user=user, role=Role.ADMIN).values("project_id")
    rows = Endpoint.objects.select_related("project", "owner").order_by("id")
    return rows.filter(Q(owner=user) | Q(project_id__in=administered))


def visible_endpoint(user: User, ref: str) -> Endpoint:
    """Raises Refused(not_found), alike for an unknown endpoint and an invisible one."""
    try:
        row = visible_endpoints(user).filter(uid=UUID(ref)).first()
    except ValueError:
        row = None
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "You have no such webhook")
    return row


def endpoint_deliveries(endpoint: Endpoint) -> QuerySet[Delivery]:
    """The deliveries of an endpoint, newest first."""
    return Delivery.objects.filter(endpoint=endpoint).select_related("endpoint").order_by("-id")


def visible_delivery(endpoint: Endpoint, ref: str) -> Delivery:
    """Raises Refused(not_found)."""
    is_number = ref.isascii() and ref.isdigit() and len(ref) <= 18
    row = endpoint_deliveries(endpoint).filter(pk=int(ref)).first() if is_number else None
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such delivery")
    return row
