"""Reads what-ifs: platform admins see all of them, nobody else any."""

from django.db.models import QuerySet

from portal.accounts.models import User
from portal.accounts.rights import require_platform_admin
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.what_if.models import WhatIf


def what_ifs_of(user: User) -> QuerySet[WhatIf]:
    """Newest first. Raises Refused(forbidden)."""
    require_platform_admin(user)
    return WhatIf.objects.select_related("requester").order_by("-id")


def what_if_visible(user: User, number: str) -> WhatIf:
    """Raises Refused(forbidden, not_found)."""
    rows = what_ifs_of(user)
    is_number = number.isascii() and number.isdecimal() and len(number) <= 18
    row = rows.filter(pk=int(number)).first() if is_number else None
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such what-if")
    return row
