"""The form of a new webhook."""

from enum import StrEnum
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import Membership, Project, Role, User
from portal.web.fields import SingleLineField
from portal.webhooks.chat import ChatFormat
from portal.webhooks.models import MAX_URL
from scheduler.core.model.states import JOB_FINAL, JobStatus

FORMATS = {
    ChatFormat.SIGNED: _("Signed JSON, for a program"),
    ChatFormat.SLACK: "Slack",
    ChatFormat.MATTERMOST: "Mattermost",
    ChatFormat.DISCORD: "Discord",
    ChatFormat.TEAMS: "Microsoft Teams",
}
URL_ERROR = _("Enter an address that begins with https://")


def administered_projects(user: User) -> QuerySet[Project]:
    memberships = Membership.objects.filter(user=user, role=Role.ADMIN).values("project_id")
    return Project.objects.filter(pk__in=memberships, archived=False).order_by("slug")


class WebhookForm(forms.Form):
    """A new webhook for one's own jobs or for those of a project that one administers."""

    name = SingleLineField(
        max_length=64,
        sentence=_("Enter a name of 1 to 64 characters on one line"),
    )
    url = forms.CharField(
        max_length=MAX_URL,
        error_messages=dict.fromkeys(("required", "max_length"), URL_ERROR),
    )
    project = forms.ModelChoiceField(
        queryset=Project.objects.none(),
        to_field_name="slug",
        required=False,
        error_messages={"invalid_choice": _("Choose one of your projects")},
    )
    format = forms.ChoiceField(
        choices=[(str(chat), label) for chat, label in FORMATS.items()],
        required=False,
        initial=str(ChatFormat.SIGNED),
        error_messages={"invalid_choice": _("Choose one of the formats")},
    )
    # "fails", "ends" or "all".
    when = forms.CharField(required=False, initial="ends")

    def __init__(self, *args: Any, user: User, **options: Any) -> None:
        super().__init__(*args, **options)
        self.projects = administered_projects(user)
        self.fields["project"].queryset = self.projects  # type: ignore[attr-defined]

    def chat_format(self) -> ChatFormat:
        return ChatFormat(self.cleaned_data["format"] or ChatFormat.SIGNED)

    def kinds(self) -> list[str]:
        """The job statuses to report; empty means all of them, and for a chat its default."""
        match self.cleaned_data["when"]:
            case "fails":
                chosen: set[StrEnum] = {JobStatus.FAILED, JobStatus.TIMED_OUT}
            case "ends":
                chosen = set(JOB_FINAL)
            case _ if self.chat_format() is ChatFormat.SIGNED:
                chosen = set()
            case _:
                chosen = {JobStatus.RUNNING, *JOB_FINAL}
        return sorted(str(status) for status in chosen)
