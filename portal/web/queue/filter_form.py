"""The filters of the queue."""

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from portal.accounts.models import Membership, User
from portal.jobs.models import Job
from portal.web.wording.reason_badges import REASONS

NOT_A_CHOICE = {"invalid_choice": gettext_lazy("%(value)s is not a valid choice")}
MINE = "mine"


class QueueFilterForm(forms.Form):
    """Whose jobs, and for what reason they wait. Only the user's own projects can be chosen: the
    queue does not reveal the owners of other jobs."""

    reason = forms.ChoiceField(
        required=False,
        choices=[(str(code), str(code)) for code in REASONS],
        error_messages=NOT_A_CHOICE,
    )

    def __init__(self, data: QueryDict, user: User) -> None:
        super().__init__(data)
        rows = Membership.objects.filter(user=user).order_by("project__slug")
        self.projects = list(rows.values_list("project__slug", flat=True))
        projects = [(f"project-{slug}", slug) for slug in self.projects]
        self.fields["whose"] = forms.ChoiceField(
            choices=[(MINE, MINE), *projects], required=False, error_messages=NOT_A_CHOICE
        )
        self.user = user

    def filtered(self, rows: QuerySet[Job]) -> QuerySet[Job]:
        if not self.is_valid():
            return rows.none()
        whose, reason = self.cleaned_data["whose"], self.cleaned_data["reason"]
        if whose == MINE:
            rows = rows.filter(owner=self.user)
        elif whose:
            rows = rows.filter(project__slug=whose.removeprefix("project-"))
        return rows.filter(reason__code=reason) if reason else rows
