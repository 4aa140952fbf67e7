"""Each page as a member, as who leads a project, and as the platform's admin: what each must see,
and what the others must not. A page without a row here fails."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.browser.people import listen
from tests.browser.seeded_web import signed_in
from tests.support.pages import PAGES

pytestmark = pytest.mark.browser
ALICE, PAUL, ADMIN = "alice", "paul", "admin"
PEOPLE = (ALICE, PAUL, ADMIN)
ALL, TEAM, LEADERS, ROOT = {*PEOPLE}, {ALICE, PAUL}, {PAUL, ADMIN}, {ADMIN}
# Swagger's own page has no bar of ours.
NOT_OURS = {"api:docs"}
WORDS = ("Home", "Jobs", "Queue", "Cluster", "Advisor", "Usage", "API", "Search", "Account of")
BAR = {
    **dict.fromkeys((f"link {word}" for word in WORDS), ALL),
    **{"button Sign out": ALL, "link Console": ROOT},
}
TABS_OF_JOB = {
    **dict.fromkeys(
        (f"link {tab}" for tab in ("Logs", "Metrics", "Spec", "Results", "Files")), ALL
    ),
    **{"link Cancel job": ALL, "link Clone": TEAM, "link Save as template": TEAM},
}
TABS_OF_CONSOLE = {
    **dict.fromkeys(
        (f"link {tab}" for tab in ("Attention", "Users", "Nodes", "Images", "Storage", "Audit")),
        ROOT,
    ),
    **{"link Policy": ROOT, "link All rows": ROOT, "link What if": ROOT, "link Approvals": LEADERS},
    **{"link Limit requests": LEADERS},
    **{"link Projects": ALL, "link Templates": ALL},
}


@dataclass(frozen=True)
class Row:
    """`sees`: a role with the beginning of its name, or a text, and who has it on the page: nobody
    else. `open_to`: for others the page is not there."""

    sees: dict[str, set[str]] = field(default_factory=dict)
    open_to: set[str] = field(default_factory=lambda: ALL)


def console(**sees: set[str]) -> Row:
    """A page that only the platform's admins have."""
    words = {name.replace("__", " "): ROOT for name in sees}
    return Row(TABS_OF_CONSOLE | words, ROOT)


TABLE: dict[str, Row] = {
    "web:sign_in": Row(),
    "web:home": Row(
        {
            "link New request": TEAM,
            "button Extend": TEAM,
            "heading You are not in a project yet": ROOT,
            "link Create a project": ROOT,
            "heading Quota of vision": TEAM,
            "heading Cluster now": ALL,
        }
    ),
    "web:request": Row(
        {
            "textbox Name": TEAM,
            "button Submit": TEAM,
            "link All templates": TEAM,
            "heading You are not in a project yet": ROOT,
        }
    ),
    "web:advise": Row(
        {
            "button Show what fits": ALL,
            "heading On each kind of device here": ALL,
            "link Common misconceptions": ALL,
            "link Fill in the request": TEAM,
        }
    ),
    "web:misconceptions": Row({"heading Common misconceptions": ALL}),
    "web:jobs": Row(
        {
            "button Filter": ALL,
            "link CSV": ALL,
            "checkbox Select unet-probe-90": ALL,
            "button Cancel selected jobs": ALL,
        }
    ),
    "web:queue": Row(
        {"link Hold llama-embed-74": ALL, "link Hold gnn-eval-50": LEADERS, "tomas · ": ROOT}
    ),
    "web:search": Row(
        {
            "searchbox Search": ALL,
            "heading Keyboard shortcuts": ALL,
            "link Cluster": ALL,
            "link Audit": ROOT,
        }
    ),
    "web:compare": Row({"heading Choose jobs": ALL, "button Compare": ALL}),
    **dict.fromkeys(("web:job", "web:job_logs"), Row(TABS_OF_JOB | {"searchbox": ALL})),
    "web:job_ranks": Row(TABS_OF_JOB | {"link All ranks as one log": ALL}),
    "web:job_metrics": Row(TABS_OF_JOB),
    "web:job_events": Row(TABS_OF_JOB | {"heading Timeline": ALL}),
    "web:job_spec": Row(TABS_OF_JOB | {"link Run again": ALL}),
    "web:job_terminal": Row(TABS_OF_JOB),
    "web:job_files": Row(TABS_OF_JOB | {"link zip": ALL}),
    "web:job_results": Row(TABS_OF_JOB | {"heading Attempt 1": ALL}),
    "web:logs_full": Row({"link Raw": ALL, "button Wrap": ALL, "link Beside the job": ALL}),
    "web:array": Row({"heading Progress": ALL, "link Cancel all": ALL}),
    "web:array_cancel": Row({"button Cancel all members": ALL, "link Keep array": ALL}),
    "web:services": Row({"heading No services yet": ALL, "link New service": ALL}),
    "web:service_new": Row({"button Create the service": TEAM, "link vLLM": TEAM}),
    "web:cancel": Row({"button Cancel job": ALL, "link Keep job": ALL}),
    "web:cluster": Row({"link Table": ALL, "button Filter": ALL, "another project": TEAM}),
    "web:cluster_node": Row(
        {"link Drain": ROOT, "link Partition preview": ROOT, "another project": TEAM}
    ),
    "web:usage": Row({"heading By project": TEAM, "link CSV": TEAM, "heading Quotas": ALL}),
    "web:account": Row({"button Create token": ALL, "heading Where you are signed in": ALL}),
    "web:notices": Row(
        {
            "button Save": ALL,
            "checkbox A node or GPU fails": {ADMIN},
            "button Send a test mail": ALL,
        }
    ),
    "web:secrets": Row({"button Set the secret": ALL}),
    "web:project_code": Row({"heading Sent code": ALL, "heading Commits of repositories": ALL}),
    "web:registries": Row({"button Set the credential": LEADERS}),
    "web:project_secrets": Row({"button Set the secret": LEADERS}),
    "web:webhooks": Row({"button Add the webhook": ALL, "link Pager": {ALICE}}),
    "web:apps": Row({"button Create token": TEAM}),
    "account_change_password": Row({"button Change password": ALL}),
    "web:console": console(),
    "web:approvals": Row(
        TABS_OF_CONSOLE | {"button Approve selected": ROOT, "heading No pending approvals": {PAUL}},
        LEADERS,
    ),
    "web:approval": console(button__Approve=ROOT, button__Refuse=ROOT),
    "web:limit_requests": Row(TABS_OF_CONSOLE | {"heading No open requests": LEADERS}, LEADERS),
    "web:projects": Row(
        TABS_OF_CONSOLE | {"link vision": ALL, "link speech": ROOT, "link New project": ROOT}
    ),
    "web:project": Row(
        TABS_OF_CONSOLE
        | {
            "button Set role": LEADERS,
            "button Remove alice": LEADERS,
            "button Set a limit": LEADERS,
            "heading History": LEADERS,
            "link Project limit": ROOT,
            "link Add a budget": ROOT,
            "link Settings and archive": ROOT,
        }
    ),
    "web:project_new": console(button__Create__the__project=ROOT),
    "web:project_settings": console(button__Save=ROOT, button__Archive__the__project=ROOT),
    "web:templates": Row(
        TABS_OF_CONSOLE | {"link New template": ALL, "link Train on one GPU": LEADERS}
    ),
    "web:template_new": Row(TABS_OF_CONSOLE | {"button Save template": ALL}),
    "web:user_list": console(link__Add__a__user=ROOT, link__alice=ROOT),
    "web:user_new": console(button__Add__the__user=ROOT),
    "web:user": console(link__Deactivate=ROOT, button__Link__for__a__new__password=ROOT),
    "web:user_deactivate": console(button__Deactivate=ROOT),
    "web:limits": console(heading__Quotas=ROOT, link__Edit=ROOT),
    "web:node_list": console(link__Cordon__or__drain=ROOT, link__Add__a__node=ROOT),
    "web:node_add": console(button__Add__the__node=ROOT),
    "web:node": console(button__New__join__token=ROOT, heading__Joining=ROOT),
    "web:drain": console(button__Cordon=ROOT),
    "web:preview": console(),
    "web:held_work": console(),
    "web:revoke": console(button__Revoke__the__key=ROOT),
    "web:node_settings": console(heading__Pinned__GPUs=ROOT, button__Preview__the__effect=ROOT),
    "web:node_pairs": console(heading__Measure__a__pair=ROOT),
    "web:node_retire": console(heading__Retire=ROOT),
    "web:policy": console(button__Show__what__would__change=ROOT, heading__History=ROOT),
    "web:portal_settings": console(heading__Settings__of__the__portal=ROOT),
    "web:what_ifs": console(button__Replay=ROOT, heading__Latest=ROOT),
    "web:disputes": console(heading__Disputed__GPUs=ROOT),
    "web:images": console(link__Edit=ROOT),
    "web:image_policy": console(button__Save=ROOT),
    "web:volumes": console(link__New__volume=ROOT),
    "web:volume_new": console(button__Create__the__volume=ROOT),
    "web:prices": console(heading__Prices__of__GPUs__and__slices=ROOT),
    "web:storage": console(heading__Storage=ROOT),
    "web:audit": console(link__CSV=ROOT),
    "api:docs": Row(),
}


def has(snapshot: str, thing: str) -> bool:
    """`thing`: "link New request" as its role and the beginning of its name, or any words."""
    role, _, name = thing.partition(" ")
    if role in ("link", "button", "heading", "checkbox", "textbox", "searchbox"):
        return f'- {role} "{name}' in snapshot or f"- '{role} \"{name}" in snapshot
    return thing.removeprefix("text: ") in snapshot


def test_every_page_has_a_row():
    assert set(TABLE) == set(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("who", PEOPLE)
def test_everybody_sees_what_is_theirs_and_nothing_else(browser, seeded_pages, who):
    page = signed_in(browser, seeded_pages, who)
    complaints: list[str] = []
    listen(page, complaints)
    wrong = []
    for name, row in TABLE.items():
        address = f"{seeded_pages.url}{seeded_pages.pages[name][1]}"
        if who not in row.open_to:
            status = page.request.get(address).status
            wrong += [f"{name} answers {status}"] if status != 404 else []
            continue
        page.goto(address, wait_until="domcontentloaded")
        snapshot = page.locator("body").aria_snapshot()
        for thing, people in (row.sees | ({} if name in NOT_OURS else BAR)).items():
            if has(snapshot, thing) != (who in people):
                wrong.append(f"{name} {'lacks' if who in people else 'shows'} {thing!r}")
    page.context.close()
    assert not wrong, "\n".join(wrong)
    assert complaints == []
