"""The pages that the search finds, each with its readers and with other words for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class Readers(Enum):
    """Who may open a page."""

    ALL = "everyone"
    PROJECT_ADMINS = "admins of a project, and platform admins"
    PLATFORM_ADMINS = "platform admins"


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page, or a section of one."""

    route: str
    label: str | Promise
    words: str = ""
    """Other words for it, in English."""
    readers: Readers = Readers.ALL
    anchor: str = ""

    @property
    def address(self) -> str:
        return reverse(self.route) + self.anchor

    def matches(self, words: list[str]) -> bool:
        """Whether each word is in its label, in any language, or in its other words."""
        text = f"{self.label} {self.words} {self.route.partition(':')[2]}".casefold()
        return all(word.casefold() in text for word in words)


PAGES: tuple[SearchPage, ...] = (
    SearchPage("web:home", _("Home"), "start home dashboard"),
    SearchPage("web:request", _("New request"), "new request submit job run gpu start"),
    SearchPage("web:advise", _("Advisor"), "advise model memory fit lora llm size"),
    SearchPage(
        "web:misconceptions",
        _("Common misconceptions"),
        "mistakes adam zero nvlink pcie pipeline bubble",
    ),
    SearchPage("web:jobs", _("Jobs"), "jobs list history"),
    SearchPage("web:queue", _("Queue"), "queue waiting order position"),
    SearchPage("web:cluster", _("Cluster"), "cluster map nodes gpus free"),
    SearchPage("web:services", _("Services"), "services endpoints models serving replicas vllm"),
    SearchPage("web:usage", _("Usage"), "usage gpu-hours quota budget"),
    SearchPage("web:projects", _("Projects"), "projects members team"),
    SearchPage("web:templates", _("Templates"), "templates"),
    SearchPage("api:docs", _("REST API"), "api rest swagger openapi"),
    SearchPage("web:account", _("Account"), "account profile passkey password language theme zone"),
    SearchPage("web:account", _("API tokens"), "api token access key cli login", anchor="#tokens"),
    SearchPage("web:secrets", _("Secrets"), "secrets tokens keys passwords credentials"),
    SearchPage("web:webhooks", _("Webhooks"), "webhooks notify events chat"),
    SearchPage("web:approvals", _("Approvals"), "approvals decide", Readers.PROJECT_ADMINS),
    SearchPage("web:limit_requests", _("Limit requests"), "raise quota", Readers.PROJECT_ADMINS),
    SearchPage("web:console", _("Console"), "console admin attention", Readers.PLATFORM_ADMINS),
    SearchPage(
        "web:limits", _("Quotas and budgets"), "quotas budgets limits", Readers.PLATFORM_ADMINS
    ),
    SearchPage("web:node_list", _("Nodes"), "nodes servers drain cordon", Readers.PLATFORM_ADMINS),
    SearchPage("web:node_add", _("Add a node"), "join token enrol", Readers.PLATFORM_ADMINS),
    SearchPage("web:user_list", _("Users"), "users people accounts", Readers.PLATFORM_ADMINS),
    SearchPage("web:user_new", _("Add a user"), "invite account new", Readers.PLATFORM_ADMINS),
    SearchPage("web:project_new", _("New project"), "create team", Readers.PLATFORM_ADMINS),
    SearchPage("web:policy", _("Policy"), "planner scheduling options", Readers.PLATFORM_ADMINS),
    SearchPage(
        "web:portal_settings",
        _("Settings of the portal"),
        "environment variables configuration",
        Readers.PLATFORM_ADMINS,
    ),
    SearchPage("web:what_ifs", _("What if"), "replay simulate forecast", Readers.PLATFORM_ADMINS),
    SearchPage("web:images", _("Images"), "images registry policy", Readers.PLATFORM_ADMINS),
    SearchPage("web:volumes", _("Volumes"), "data sets folders nfs", Readers.PLATFORM_ADMINS),
    SearchPage("web:prices", _("Prices"), "prices cost currency", Readers.PLATFORM_ADMINS),
    SearchPage("web:storage", _("Storage"), "storage logs retention", Readers.PLATFORM_ADMINS),
    SearchPage("web:audit", _("Audit"), "audit trail changes history", Readers.PLATFORM_ADMINS),
    SearchPage("web:disputes", _("Disputed GPUs"), "disputed gpus claims", Readers.PLATFORM_ADMINS),
)


def pages_for(*, is_project_admin: bool, is_platform_admin: bool) -> Iterator[SearchPage]:
    """The pages that a user with these rights may open."""
    rights = {
        Readers.ALL: True,
        Readers.PROJECT_ADMINS: is_project_admin or is_platform_admin,
        Readers.PLATFORM_ADMINS: is_platform_admin,
    }
    return (page for page in PAGES if rights[page.readers])
