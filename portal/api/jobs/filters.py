"""Filters, order and pagination of the job list. `portal.jobs.filters` applies the filters."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.request import Request

from portal.accounts.models import User
from portal.api.protocol.pagination import ID_POSITION, NewestFirstPagination, is_moment
from portal.jobs.failure_causes import FailureCause
from portal.jobs.filters import KINDS, ORDERS, JobFilters
from portal.jobs.models import Job
from portal.jobs.selectors import jobs_visible_to
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import JobStatus

DEFAULT_ORDER = "newest"


class JobQuerySerializer(serializers.Serializer[Any]):
    """Filters of the job list. For the schema: `portal.jobs.filters` parses them, and a test
    compares the names."""

    status = serializers.MultipleChoiceField(
        choices=[(str(s), str(s)) for s in JobStatus], required=False, help_text="may be repeated"
    )
    reason = serializers.MultipleChoiceField(
        choices=[(str(code), str(code)) for code in ReasonCode],
        required=False,
        help_text="why the job waits; may be repeated",
    )
    cause = serializers.MultipleChoiceField(
        choices=[(str(cause), str(cause)) for cause in FailureCause],
        required=False,
        help_text="what made the job fail; may be repeated",
    )
    array = serializers.CharField(
        max_length=21,
        required=False,
        help_text="the members of an array, such as A-5; without it, each array is one row",
    )
    project = serializers.CharField(max_length=40, required=False)
    owner = serializers.CharField(max_length=150, required=False)
    mine = serializers.BooleanField(required=False, help_text="only your own jobs")
    name = serializers.CharField(
        max_length=63, required=False, help_text="part of the name, or an id such as J-12"
    )
    node = serializers.CharField(
        max_length=63, required=False, help_text="a node that the job runs or ran on"
    )
    kind = serializers.ChoiceField(choices=[(kind, kind) for kind in KINDS], required=False)
    metric = serializers.CharField(
        max_length=200,
        required=False,
        help_text="the last value of what the job reports, such as loss<0.3 or loss<0.3,acc>=0.9",
    )
    submitted_after = serializers.CharField(
        required=False, help_text="such as 2026-01-31, or 2026-01-31T09:30+00:00"
    )
    submitted_before = serializers.CharField(
        required=False, help_text="such as 2026-01-31, or 2026-01-31T09:30+00:00"
    )


class JobListQuerySerializer(JobQuerySerializer):
    order = serializers.ChoiceField(
        choices=[(order, order) for order in ORDERS],
        required=False,
        help_text="default: newest; started and finished sort the latest first",
    )


class JobPagination(NewestFirstPagination):
    """Pages in the requested order. A cursor is valid only in the order that it came from."""

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        order = request.query_params.get("order") or DEFAULT_ORDER
        return ORDERS.get(order, ORDERS[DEFAULT_ORDER])

    def is_position(self, request: Request, position: str) -> bool:
        order = request.query_params.get("order") or DEFAULT_ORDER
        if ORDERS.get(order, ("-id",))[0].removeprefix("-") == "id":
            return bool(ID_POSITION.fullmatch(position))
        return is_moment(position)


def filtered_jobs(user: User, query: Mapping[str, Any]) -> QuerySet[Job]:
    """The jobs visible to the user that match a query string or a body, each array as one. Raises
    ValidationError."""
    rows: QuerySet[Job] = _filters(user, query).qs
    return rows


def all_filtered_jobs(user: User, query: Mapping[str, Any]) -> QuerySet[Job]:
    """The same with all members of arrays."""
    return _filters(user, query).matching


def _filters(user: User, query: Mapping[str, Any]) -> JobFilters:
    data = query if isinstance(query, QueryDict) else _as_query(query)
    filters = JobFilters(data, jobs_visible_to(user), user=user)
    if filters.errors:
        errors = {name: [str(text) for text in texts] for name, texts in filters.errors.items()}
        raise serializers.ValidationError(errors)
    return filters


def _as_query(body: Mapping[str, Any]) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, value in body.items():
        values = value if isinstance(value, list | tuple | set | frozenset) else [value]
        data.setlist(name, [_text(item) for item in values])
    return data


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
