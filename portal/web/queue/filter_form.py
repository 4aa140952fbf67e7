"""The filters of the queue."""

from collections.abc import Iterable

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from portal.accounts.models import Membership, User
from portal.jobs.models import Job
from portal.web.project_choice import FILTERS
from portal.web.wording.reason_badges import REASONS

NOT_A_CHOICE = {"invalid_choice": gettext_lazy("%(value)s is not a valid choice")}
MINE = "mine"
PROJECT = FILTERS["web:queue"]


class QueueFilterForm(forms.Form):
    """Whose jobs, and for what reason they wait. Only the user's own projects can be chosen: the
    queue does not reveal the owners of other jobs."""

    reason = forms.ChoiceField(
        required=False,
        choices=[(str(code), str(code)) for code in REASONS],
        error_messages=NOT_A_CHOICE,
    )

    def __init__(self, data: QueryDict, user: User, memberships: Iterable[Membership]) -> None:
        super().__init__(data)
        self.projects = [each.project.slug for each in memberships]
        projects = [(PROJECT.query(slug)[1], slug) for slug in self.projects]
        self.fields["whose"] = forms.ChoiceField(
            choices=[(MINE, MINE), *projects], required=False, error_messages=NOT_A_CHOICE
        )
        self.user = user

    def filtered(self, rows: QuerySet[Job]) -> QuerySet[Job]:
        if not self.is_valid():
            return rows.none()
        chosen, reason = self.cleaned_data["whose"], self.cleaned_data["reason"]
        if chosen == MINE:
            rows = rows.filter(owner=self.user)
        elif chosen:
            rows = rows.filter(project__slug=PROJECT.slug(chosen))
        return rows.filter(reason__code=reason) if reason else rows
