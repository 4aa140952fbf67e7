"""Every page of the portal by its URL name; a test fails if one is neither listed nor excused.

`PAGES` are the pages that people read, with the values in their addresses. `EXCUSED` says why an
address is not a page. `REST` are the API lists that are measured with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import get_resolver, reverse
from django.urls.resolvers import URLPattern, URLResolver

POSTED = "it takes a form and redirects, or answers to one"
FILE = "it is a file"
STREAM = "it is a stream"
ALLAUTH = "the same template as a listed page, reached in the middle of signing in"


@dataclass(frozen=True)
class PageOf:
    """`as_user`: the reader: "", "alice" or "admin". In `args`, {job}, {node} and {project} are
    filled in. `query` is appended."""

    as_user: str = "alice"
    args: tuple[str, ...] = ()
    query: str = ""


A, ROOT, NOBODY = "alice", "admin", ""
PAGES: dict[str, PageOf] = {
    "web:sign_in": PageOf(NOBODY),
    "web:home": PageOf(),
    "web:request": PageOf(),
    "web:advise": PageOf(query="?model=llama3-8b&task=lora&batch=8&steps=1000"),
    "web:misconceptions": PageOf(),
    "web:jobs": PageOf(),
    "web:compare": PageOf(query="?job={job}"),
    "web:queue": PageOf(),
    "web:search": PageOf(query="?q=a"),
    "web:job": PageOf(args=("{job}",)),
    "web:job_logs": PageOf(args=("{job}",)),
    "web:job_ranks": PageOf(args=("{job}",)),
    "web:job_metrics": PageOf(args=("{job}",)),
    "web:job_events": PageOf(args=("{job}",)),
    "web:job_spec": PageOf(args=("{job}",)),
    "web:job_results": PageOf(args=("{job}",)),
    "web:job_files": PageOf(args=("{job}",)),
    "web:job_terminal": PageOf(args=("{job}",)),
    "web:logs_full": PageOf(args=("{job}",)),
    "web:array": PageOf(args=("{array}",)),
    "web:services": PageOf(),
    "web:service_new": PageOf(),
    "web:array_cancel": PageOf(args=("{array}",)),
    "web:cancel": PageOf(args=("{job}",)),
    "web:cluster": PageOf(),
    "web:cluster_node": PageOf(args=("{node}",), query="?gpu=0&at=0"),
    "web:usage": PageOf(),
    "web:account": PageOf(),
    "web:notices": PageOf(),
    "web:secrets": PageOf(),
    "web:project_code": PageOf(ROOT, ("{project}",)),
    "web:registries": PageOf(ROOT, ("{project}",)),
    "web:project_secrets": PageOf(ROOT, ("{project}",)),
    "web:webhooks": PageOf(),
    "web:apps": PageOf(),
    "account_change_password": PageOf(),
    "web:console": PageOf(ROOT),
    "web:approvals": PageOf(ROOT),
    "web:approval": PageOf(ROOT, ("{asked}",)),
    "web:limit_requests": PageOf(ROOT),
    "web:projects": PageOf(ROOT),
    "web:project": PageOf(ROOT, ("{project}",)),
    "web:project_new": PageOf(ROOT),
    "web:project_settings": PageOf(ROOT, ("{project}",)),
    "web:templates": PageOf(ROOT),
    "web:template_new": PageOf(ROOT),
    "web:user_list": PageOf(ROOT),
    "web:user_new": PageOf(ROOT),
    "web:user": PageOf(ROOT, ("alice",)),
    "web:user_deactivate": PageOf(ROOT, ("alice",)),
    "web:limits": PageOf(ROOT),
    "web:node_list": PageOf(ROOT),
    "web:node_add": PageOf(ROOT),
    "web:node": PageOf(ROOT, ("{node}",)),
    "web:drain": PageOf(ROOT, ("{node}",)),
    "web:preview": PageOf(ROOT, ("{node}",)),
    "web:held_work": PageOf(ROOT, ("{node}",)),
    "web:revoke": PageOf(ROOT, ("{node}",)),
    "web:node_retire": PageOf(ROOT, ("{node}",)),
    "web:node_settings": PageOf(ROOT, ("{node}",)),
    "web:node_pairs": PageOf(ROOT, ("{node}",)),
    "web:policy": PageOf(ROOT),
    "web:portal_settings": PageOf(ROOT),
    "web:what_ifs": PageOf(ROOT),
    "web:disputes": PageOf(ROOT),
    "web:images": PageOf(ROOT),
    "web:image_policy": PageOf(ROOT, ("{project}",)),
    "web:volumes": PageOf(ROOT),
    "web:volume_new": PageOf(ROOT),
    "web:prices": PageOf(ROOT),
    "web:storage": PageOf(ROOT),
    "web:audit": PageOf(ROOT),
    "api:docs": PageOf(),
}
EXCUSED: dict[str, str] = {
    "web:sign_out": POSTED,
    "web:language": POSTED,
    "web:time_zone": POSTED,
    "web:request_preview": POSTED,
    "web:template_search": "a part of web:request",
    "web:search_options": "a part of web:search",
    "web:bulk_cancel": POSTED,
    "web:hold": POSTED,
    "web:extend": POSTED,
    "web:app_open": POSTED,
    "web:app_guests": "of a job with apps; test_app_sharing looks at it",
    "web:app_guest_remove": POSTED,
    "web:app_token_revoke": "of a token that somebody created; test_app_sharing looks at it",
    "web:service": "one that somebody created; test_service_pages looks at it",
    "web:service_end": "of a service that somebody created; test_service_pages looks at it",
    "web:service_change": POSTED,
    "web:service_open": POSTED,
    "web:service_promote": POSTED,
    "web:choose_project": POSTED,
    "web:release": POSTED,
    "web:retry": POSTED,
    "web:array_retry": POSTED,
    "web:alternative": POSTED,
    "web:limit_request": POSTED,
    "web:tokens": POSTED,
    "web:token_revoke": POSTED,
    "web:webhook": "one that somebody added; test_webhooks looks at it",
    "web:secret_delete": "one that somebody set; test_secret_pages looks at it",
    "web:registry_delete": "one that somebody set; test_registries looks at it",
    "web:project_secret_delete": "one that somebody set; test_secret_pages looks at it",
    "web:project_code_remove": "of code that somebody sent; test_project_code looks at it",
    "web:tree_remove": "of a job with files; test_job_files looks at it",
    "web:webhook_test": POSTED,
    "web:notices_test": POSTED,
    "web:notices_stop": "its address is signed, for one person",
    "web:webhook_remove": POSTED,
    "web:webhook_again": POSTED,
    "web:browser_end": POSTED,
    "web:browsers_end": POSTED,
    "web:member": POSTED,
    "web:quota": POSTED,
    "web:budget": POSTED,
    "web:budget_remove": POSTED,
    "web:volume": "one that somebody made; test_volume_pages looks at it",
    "web:template": "a template that somebody made; the same form as template_new",
    "web:uncordon": POSTED,
    "web:what_if_cancel": POSTED,
    "web:what_if": "one that somebody asked; test_console_what_if looks at it",
    "web:project_archive": POSTED,
    "web:user_link": POSTED,
    "web:user_second_steps": POSTED,
    "web:user_rights": POSTED,
    "web:user_activate": POSTED,
    "web:welcome": "a link that an admin hands over; test_console_users follows one",
    "web:node_join_token": POSTED,
    "web:node_withdraw": POSTED,
    "web:gpu_pin": POSTED,
    "web:unfreeze": POSTED,
    "web:dispute": POSTED,
    "web:jobs_csv": FILE,
    "web:compare_csv": FILE,
    "web:array_metrics_csv": FILE,
    "web:queue_csv": FILE,
    "web:usage_file": FILE,
    "web:audit_csv": FILE,
    "web:raw_log": FILE,
    "web:tree_file": FILE,
    "web:tree_image": FILE,
    "web:tree_archive": FILE,
    "web:job_stream": STREAM,
    "web:jobs_stream": STREAM,
    "web:array_stream": STREAM,
    "web:home_stream": STREAM,
    "web:queue_stream": STREAM,
    "web:cluster_stream": STREAM,
    "web:request_stream": STREAM,
    "web:node_stream": STREAM,
    "web:what_if_stream": STREAM,
    "account_login": "web:sign_in is the same address",
    "account_logout": POSTED,
    "account_signup": "closed: an admin makes accounts",
    "mfa_index": "it leads to web:account",
    "mfa_list_webauthn": "it leads to web:account",
    "healthz": "for programs",
    **dict.fromkeys(
        (
            "account_inactive",
            "mfa_authenticate",
            "mfa_login_webauthn",
            "account_reauthenticate",
            "mfa_reauthenticate",
            "mfa_reauthenticate_webauthn",
            "openid_connect_login",
            "openid_connect_callback",
            "saml_login",
            "saml_acs",
            "saml_finish_acs",
            "saml_metadata",
            "saml_sls",
            "socialaccount_login_cancelled",
            "socialaccount_login_error",
            "socialaccount_signup",
            "socialaccount_connections",
            "account_set_password",
            "mfa_activate_totp",
            "mfa_deactivate_totp",
            "mfa_view_recovery_codes",
            "mfa_generate_recovery_codes",
            "mfa_add_webauthn",
            "mfa_remove_webauthn",
        ),
        ALLAUTH,
    ),
}
REST = (
    "/api/v1/jobs",
    "/api/v1/jobs/{job}",
    "/api/v1/jobs/{job}/events",
    "/api/v1/nodes",
    "/api/v1/gpus",
    "/api/v1/slices",
    "/api/v1/projects",
    "/api/v1/quotas",
)


def names() -> set[str]:
    """The names of all addresses that are neither REST nor Django's own console."""
    return set(_names(get_resolver().url_patterns, ""))


def unlisted() -> set[str]:
    return names() - set(PAGES) - set(EXCUSED)


def gone() -> set[str]:
    """Listed or excused, and no longer there."""
    return (set(PAGES) | set(EXCUSED)) - names() - {"api:docs"}


def address(name: str, known: dict[str, str]) -> str:
    page = PAGES[name]
    return reverse(name, args=[arg.format(**known) for arg in page.args]) + page.query.format(
        **known
    )


def _names(patterns: list[URLPattern | URLResolver], space: str) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = pattern.namespace or ""
            if inner not in ("admin", "api"):
                yield from _names(pattern.url_patterns, inner or space)
        else:
            name = pattern.name or str(pattern.pattern)
            yield f"{space}:{name}" if space else name
