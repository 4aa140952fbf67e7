"""What a page says in place of log lines that it cannot show."""

from collections.abc import Sequence

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.job_logs.storage import removed_after_days
from portal.jobs.models import Replica
from portal.storage.errors import OtherHost, StoreError, StoreUnavailable


def store_notice(error: StoreError) -> str:
    """Why the log cannot be read, and what to do."""
    match error:
        case StoreUnavailable():
            return _(
                "The log store does not answer. Nothing is lost: what the job writes is kept on "
                "its node and appears here when the store is back."
            )
        case OtherHost():
            return _(
                "This log is on the disk of another web host, %(host)s. Web hosts need one shared "
                "folder or an S3-compatible store: tell an admin."
            ) % {"host": error.host}
        case _:
            return _(
                "The stored log does not agree with the database: bytes that arrived are missing "
                "or changed in the store. An admin has to restore them."
            )


def removed_notice(replicas: Sequence[Replica]) -> str:
    """That retention removed the logs of these replicas; empty if there are none."""
    if not replicas:
        return ""
    days = removed_after_days(replicas[0])
    size = filesizeformat(sum(replica.log_bytes for replica in replicas))
    return ngettext(
        "This log (%(size)s) was removed by retention, %(days)s day after the job ended.",
        "This log (%(size)s) was removed by retention, %(days)s days after the job ended.",
        days,
    ) % {"size": size, "days": days}
