"""Filters of job lists: the same names and values on the Jobs page and over REST.

    filters = JobFilters(request.GET, jobs_visible_to(user), user=user)
    filters.errors      # by field; qs is empty while there are any
    filters.qs          # filtered and sorted
    filters.sorting     # the sort columns, for pages by cursor

Unknown names are ignored: a page has parameters of its own.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import django_filters as df
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _
from django_filters.fields import IsoDateTimeField

from portal.accounts.models import User
from portal.jobs.failure_causes import FailureCause
from portal.jobs.metric_conditions import MetricConditionsField, parse_conditions
from portal.jobs.models import Job, Replica
from portal.jobs.querysets import JobQuerySet
from portal.jobs.selectors import ARRAY_LABEL, LABEL
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import JobStatus

KINDS = ("batch", "notebook", "service")
# Sort orders, by columns with an index only. Rows without a value are left out.
ORDERS: dict[str, tuple[str, ...]] = {
    "newest": ("-id",),
    "oldest": ("id",),
    "started": ("-started_at", "-id"),
    "finished": ("-finished_at", "-id"),
}
YES, NO = ("1", "true"), ("0", "false")
NOT_A_CHOICE = {"invalid_choice": _("%(value)s is not a valid choice. Choose one from the list")}
NOT_A_TIME = {
    "invalid": _("Enter a day such as 2026-01-31 or a time such as 2026-01-31T09:30+00:00")
}
YEARS = range(1970, 2200)
NUMBER = re.compile(r"[Jj]-[0-9]+")
# Filters in which the members of an array differ.
OF_MEMBERS = ("status", "reason", "cause", "node", "metric")


class FilterMomentField(IsoDateTimeField):
    """A moment, or a day, meaning its start. Far years do not fit a database in every time zone."""

    def to_python(self, value: Any) -> datetime | None:
        moment: datetime | None = super().to_python(value)
        if moment is not None and moment.year not in YEARS:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return moment


class MomentFilter(df.IsoDateTimeFilter):
    field_class = FilterMomentField


class MetricFilter(df.CharFilter):
    field_class = MetricConditionsField


class JobFilters(df.FilterSet):
    status = df.MultipleChoiceFilter(
        choices=[(str(s), str(s)) for s in JobStatus],
        distinct=False,
        label=_("Status"),
        error_messages=NOT_A_CHOICE,
        help_text="may be repeated",
    )
    reason = df.MultipleChoiceFilter(
        choices=[(str(code), str(code)) for code in ReasonCode],
        label=_("Reason"),
        method="by_reason",
        error_messages=NOT_A_CHOICE,
        help_text="what it waits for; may be repeated",
    )
    cause = df.MultipleChoiceFilter(
        "failure_cause",
        choices=[(str(cause), str(cause)) for cause in FailureCause],
        distinct=False,
        label=_("Why it failed"),
        error_messages=NOT_A_CHOICE,
        help_text="what made it fail; may be repeated",
    )
    array = df.CharFilter(
        label=_("Array"),
        method="by_array",
        max_length=21,
        help_text="the members of an array, such as A-5; without it, each array is one row",
    )
    project = df.CharFilter("project__slug", label=_("Project"), max_length=40)
    owner = df.CharFilter("owner__username", label=_("Owner"), max_length=150)
    mine = df.TypedChoiceFilter(
        choices=[(value, value) for value in (*YES, *NO)],
        coerce=lambda value: value in YES,
        label=_("Only mine"),
        method="by_mine",
        error_messages=NOT_A_CHOICE,
    )
    name = df.CharFilter(
        label=_("Name contains"),
        method="by_name",
        max_length=63,
        help_text="a part of the name, or a job's number such as J-12",
    )
    node = df.CharFilter(
        label=_("Node"),
        method="by_node",
        max_length=63,
        help_text="the name of a node that it runs or ran on",
    )
    kind = df.ChoiceFilter(
        choices=[(kind, kind) for kind in KINDS], label=_("Kind"), error_messages=NOT_A_CHOICE
    )
    metric = MetricFilter(
        label=_("Metric"),
        method="by_metric",
        max_length=200,
        help_text="the last value that it reported, such as loss<0.3",
    )
    submitted_after = MomentFilter(
        "submitted_at", "gte", label=_("Submitted on or after"), error_messages=NOT_A_TIME
    )
    submitted_before = MomentFilter(
        "submitted_at", "lt", label=_("Submitted before"), error_messages=NOT_A_TIME
    )
    order = df.ChoiceFilter(
        choices=[(order, order) for order in ORDERS],
        label=_("Order"),
        method="by_order",
        error_messages=NOT_A_CHOICE,
        help_text="newest by default; started and finished: the latest first",
    )

    class Meta:
        model = Job
        fields: list[str] = []

    def __init__(
        self, data: Mapping[str, Any], queryset: QuerySet[Job], *, user: User, **more: Any
    ) -> None:
        super().__init__(data, queryset, **more)
        self.is_bound = True
        self.user = user

    def filter_queryset(self, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """Empty while a value is invalid: an ignored filter would show too much."""
        if self.errors:
            return queryset.none()
        return self._one_row_per_array(self.matching).order_by(*self.sorting)

    @cached_property
    def matching(self) -> JobQuerySet[Job]:
        """All jobs that match, each member of an array on its own."""
        if self.errors:
            nothing: JobQuerySet[Job] = self.queryset.none()
            return nothing
        rows: JobQuerySet[Job] = super().filter_queryset(self.queryset.all())
        ordered: JobQuerySet[Job] = rows.order_by(*self.sorting)
        return ordered

    def _one_row_per_array(self, rows: JobQuerySet[Job]) -> QuerySet[Job]:
        if self.data.get("array") or NUMBER.fullmatch(self.data.get("name") or ""):
            return rows
        if any(self.data.get(name) for name in OF_MEMBERS):
            return rows.one_row_per_array(self.queryset)
        return rows.filter(Q(array=None) | Q(is_array_row=True))

    @property
    def sorting(self) -> tuple[str, ...]:
        return ORDERS[self.form.cleaned_data.get("order") or "newest"]

    @property
    def is_narrowed(self) -> bool:
        """Whether any filter but the order is set, valid or not."""
        return any(self.data.get(name) for name in self.filters if name != "order")

    def by_reason(self, rows: JobQuerySet[Job], _name: str, codes: list[str]) -> JobQuerySet[Job]:
        """Only of waiting jobs: a stored reason means nothing once the job runs."""
        return rows.waiting().filter(reason__code__in=codes) if codes else rows

    def by_mine(self, rows: QuerySet[Job], _name: str, mine: bool) -> QuerySet[Job]:
        return rows.filter(owner=self.user) if mine is True else rows

    def by_name(self, rows: QuerySet[Job], _name: str, text: str) -> QuerySet[Job]:
        named = Q(name__icontains=text)
        if NUMBER.fullmatch(text) and (label := LABEL.fullmatch(text)):
            named |= Q(pk=int(label[1]))
        return rows.filter(named)

    def by_array(self, rows: QuerySet[Job], _name: str, text: str) -> QuerySet[Job]:
        match = ARRAY_LABEL.fullmatch(text)
        key = int(match[1]) if match else 0
        return rows.filter(array=key, array_index__isnull=False)

    def by_node(self, rows: QuerySet[Job], _name: str, node: str) -> QuerySet[Job]:
        on_node = Replica.objects.filter(node__name=node).values("attempt__job_id")
        return rows.filter(pk__in=on_node)

    def by_metric(self, rows: QuerySet[Job], _name: str, text: str) -> QuerySet[Job]:
        """Any replica of the job counts."""
        for condition in parse_conditions(text):
            last = {f"metrics__last__{condition.lookup}": condition.value}
            named = Job.objects.filter(
                metrics__name=condition.name, **(last if condition.lookup else {})
            )
            rows = rows.filter(pk__in=named.values("pk"))
        return rows

    def by_order(self, rows: QuerySet[Job], _name: str, order: str) -> QuerySet[Job]:
        column = ORDERS[order][0].removeprefix("-")
        return rows if column == "id" else rows.filter(**{f"{column}__isnull": False})


def hidden_fields(filters: JobFilters, *excluded: str) -> list[tuple[str, str]]:
    """The set filters as (name, value) pairs, for links and forms that keep them."""
    data = filters.data
    return [
        (name, value)
        for name in filters.filters
        if name not in excluded
        for value in data.getlist(name)
        if value
    ]
