"""Who may open which page. A row for every page and action, or this fails. Nodes and expired tokens
are nobody here: pages know only sign-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.urls import get_resolver
from pytest_django.plugin import DjangoDbBlocker

from tests.support.module_rows import module_rows
from tests.support.page_routes import PAGES, STREAMS, address_of, routes, with_names_of_pages
from tests.support.rights import OUTSIDE, PEOPLE, World, a_world

pytestmark = pytest.mark.django_db

# (page, method): the status for PEOPLE, then for one who is not signed in (302 leads to sign-in).
ROWS: dict[tuple[str, str], tuple[int, int, int, int, int, int]] = {
    ("account_change_password", "get"): (200, 200, 200, 200, 200, 302),
    ("account_change_password", "post"): (200, 200, 200, 200, 200, 302),
    ("account_inactive", "get"): (200, 200, 200, 200, 200, 200),
    ("account_inactive", "post"): (405, 405, 405, 405, 405, 405),
    ("account_login", "get"): (302, 302, 302, 302, 302, 200),
    ("account_login", "post"): (302, 302, 302, 302, 302, 200),
    ("account_logout", "get"): (405, 405, 405, 405, 405, 405),
    ("account_logout", "post"): (302, 302, 302, 302, 302, 302),
    ("account_reauthenticate", "get"): (200, 200, 200, 200, 200, 302),
    ("account_reauthenticate", "post"): (200, 200, 200, 200, 200, 302),
    ("account_set_password", "get"): (302, 302, 302, 302, 302, 302),
    ("account_set_password", "post"): (302, 302, 302, 302, 302, 302),
    ("account_signup", "get"): (302, 302, 302, 302, 302, 200),
    ("account_signup", "post"): (302, 302, 302, 302, 302, 200),
    ("healthz", "get"): (200, 200, 200, 200, 200, 200),
    ("healthz", "post"): (200, 200, 200, 200, 200, 200),
    ("mfa_activate_totp", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_activate_totp", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_add_webauthn", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_add_webauthn", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_authenticate", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_authenticate", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_deactivate_totp", "get"): (404, 404, 404, 404, 404, 302),
    ("mfa_deactivate_totp", "post"): (404, 404, 404, 404, 404, 302),
    ("mfa_generate_recovery_codes", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_generate_recovery_codes", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_index", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_index", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_list_webauthn", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_list_webauthn", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_login_webauthn", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_login_webauthn", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_reauthenticate", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_reauthenticate", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_reauthenticate_webauthn", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_reauthenticate_webauthn", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_remove_webauthn", "get"): (302, 302, 302, 302, 302, 302),
    ("mfa_remove_webauthn", "post"): (302, 302, 302, 302, 302, 302),
    ("mfa_view_recovery_codes", "get"): (404, 404, 404, 404, 404, 302),
    ("mfa_view_recovery_codes", "post"): (405, 405, 405, 405, 405, 302),
    ("openid_connect_callback", "get"): (404, 404, 404, 404, 404, 404),
    ("openid_connect_callback", "post"): (404, 404, 404, 404, 404, 404),
    ("openid_connect_login", "get"): (405, 405, 405, 405, 405, 405),
    ("openid_connect_login", "post"): (404, 404, 404, 404, 404, 404),
    ("saml_acs", "get"): (404, 404, 404, 404, 404, 404),
    ("saml_acs", "post"): (404, 404, 404, 404, 404, 404),
    ("saml_finish_acs", "get"): (404, 404, 404, 404, 404, 404),
    ("saml_finish_acs", "post"): (404, 404, 404, 404, 404, 404),
    ("saml_login", "get"): (405, 405, 405, 405, 405, 405),
    ("saml_login", "post"): (404, 404, 404, 404, 404, 404),
    ("saml_metadata", "get"): (404, 404, 404, 404, 404, 404),
    ("saml_metadata", "post"): (405, 405, 405, 405, 405, 405),
    ("saml_sls", "get"): (404, 404, 404, 404, 404, 404),
    ("saml_sls", "post"): (404, 404, 404, 404, 404, 404),
    ("socialaccount_connections", "get"): (302, 302, 302, 302, 302, 302),
    ("socialaccount_connections", "post"): (302, 302, 302, 302, 302, 302),
    ("socialaccount_login_cancelled", "get"): (200, 200, 200, 200, 200, 200),
    ("socialaccount_login_cancelled", "post"): (405, 405, 405, 405, 405, 405),
    ("socialaccount_login_error", "get"): (401, 401, 401, 401, 401, 401),
    ("socialaccount_login_error", "post"): (405, 405, 405, 405, 405, 405),
    ("socialaccount_signup", "get"): (302, 302, 302, 302, 302, 302),
    ("socialaccount_signup", "post"): (302, 302, 302, 302, 302, 302),
    ("web:account", "get"): (200, 200, 200, 200, 200, 302),
    ("web:account", "post"): (200, 200, 200, 200, 200, 302),
    ("web:held_work", "get"): (404, 404, 404, 404, 200, 302),
    ("web:held_work", "post"): (404, 404, 404, 404, 302, 302),
    ("web:revoke", "get"): (404, 404, 404, 404, 200, 302),
    ("web:revoke", "post"): (404, 404, 404, 404, 302, 302),
    ("web:retry", "get"): (405, 405, 405, 405, 405, 302),
    ("web:retry", "post"): (403, 403, 404, 403, 403, 302),
    ("web:approval", "get"): (404, 404, 404, 404, 404, 302),
    ("web:approval", "post"): (404, 404, 404, 404, 404, 302),
    ("web:approvals", "get"): (404, 404, 200, 200, 200, 302),
    ("web:approvals", "post"): (404, 404, 400, 400, 400, 302),
    ("web:limit_requests", "get"): (404, 404, 200, 200, 200, 302),
    ("web:limit_requests", "post"): (404, 404, 400, 400, 400, 302),
    ("web:limit_request", "get"): (405, 405, 405, 405, 405, 302),
    ("web:limit_request", "post"): (403, 302, 404, 403, 403, 302),
    ("web:storage", "get"): (404, 404, 404, 404, 200, 302),
    ("web:storage", "post"): (404, 404, 404, 404, 405, 302),
    ("web:audit", "get"): (404, 404, 404, 404, 200, 302),
    ("web:audit", "post"): (404, 404, 404, 404, 200, 302),
    ("web:audit_csv", "get"): (404, 404, 404, 404, 200, 302),
    ("web:audit_csv", "post"): (404, 404, 404, 404, 200, 302),
    ("web:browser_end", "get"): (405, 405, 405, 405, 405, 405),
    ("web:browser_end", "post"): (404, 404, 404, 404, 404, 302),
    ("web:browsers_end", "get"): (405, 405, 405, 405, 405, 405),
    ("web:browsers_end", "post"): (302, 302, 302, 302, 302, 302),
    ("web:budget", "get"): (404, 404, 404, 404, 200, 302),
    ("web:budget", "post"): (404, 404, 404, 404, 400, 302),
    ("web:budget_remove", "get"): (404, 404, 404, 404, 405, 302),
    ("web:budget_remove", "post"): (404, 404, 404, 404, 404, 302),
    ("web:cancel", "get"): (403, 200, 404, 200, 200, 302),
    ("web:cancel", "post"): (403, 302, 404, 302, 302, 302),
    ("web:bulk_cancel", "get"): (302, 302, 302, 302, 302, 302),
    ("web:bulk_cancel", "post"): (302, 302, 302, 302, 302, 302),
    ("web:request_preview", "get"): (405, 405, 405, 405, 405, 302),
    ("web:request_preview", "post"): (200, 200, 200, 200, 200, 302),
    ("web:cluster", "get"): (200, 200, 200, 200, 200, 302),
    ("web:cluster", "post"): (200, 200, 200, 200, 200, 302),
    ("web:cluster_node", "get"): (200, 200, 200, 200, 200, 302),
    ("web:cluster_node", "post"): (200, 200, 200, 200, 200, 302),
    ("web:console", "get"): (404, 404, 404, 404, 200, 302),
    ("web:console", "post"): (404, 404, 404, 404, 200, 302),
    ("web:dispute", "get"): (404, 404, 404, 404, 405, 302),
    ("web:dispute", "post"): (404, 404, 404, 404, 302, 302),
    ("web:disputes", "get"): (404, 404, 404, 404, 200, 302),
    ("web:disputes", "post"): (404, 404, 404, 404, 405, 302),
    ("web:drain", "get"): (404, 404, 404, 404, 200, 302),
    ("web:drain", "post"): (404, 404, 404, 404, 400, 302),
    ("web:choose_project", "get"): (405, 405, 405, 405, 405, 302),
    ("web:choose_project", "post"): (302, 302, 302, 302, 302, 302),
    ("web:extend", "get"): (405, 405, 405, 405, 405, 302),
    ("web:extend", "post"): (302, 302, 404, 302, 302, 302),
    ("web:hold", "get"): (403, 200, 404, 200, 200, 302),
    ("web:hold", "post"): (403, 200, 404, 200, 200, 302),
    ("web:home", "get"): (200, 200, 200, 200, 200, 302),
    ("web:home", "post"): (200, 200, 200, 200, 200, 302),
    ("web:image_policy", "get"): (404, 404, 404, 404, 200, 302),
    ("web:image_policy", "post"): (404, 404, 404, 404, 302, 302),
    ("web:images", "get"): (404, 404, 404, 404, 200, 302),
    ("web:images", "post"): (404, 404, 404, 404, 200, 302),
    ("web:alternative", "get"): (405, 405, 405, 405, 405, 302),
    ("web:alternative", "post"): (302, 302, 404, 302, 302, 302),
    ("web:job", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job", "post"): (405, 405, 405, 405, 405, 302),
    ("web:job_events", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job_events", "post"): (405, 405, 405, 405, 405, 302),
    ("web:job_files", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job_files", "post"): (405, 405, 405, 405, 405, 302),
    ("web:job_logs", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job_logs", "post"): (405, 405, 405, 405, 405, 302),
    ("web:job_metrics", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job_metrics", "post"): (405, 405, 405, 405, 405, 302),
    ("web:job_results", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job_results", "post"): (405, 405, 405, 405, 405, 302),
    ("web:job_spec", "get"): (200, 200, 404, 200, 200, 302),
    ("web:job_spec", "post"): (405, 405, 405, 405, 405, 302),
    ("web:jobs", "get"): (200, 200, 200, 200, 200, 302),
    ("web:jobs", "post"): (200, 200, 200, 200, 200, 302),
    ("web:language", "get"): (405, 405, 405, 405, 405, 405),
    ("web:language", "post"): (302, 302, 302, 302, 302, 302),
    ("web:limits", "get"): (404, 404, 404, 404, 200, 302),
    ("web:limits", "post"): (404, 404, 404, 404, 200, 302),
    ("web:logs_full", "get"): (200, 200, 404, 200, 200, 302),
    ("web:logs_full", "post"): (405, 405, 405, 405, 405, 302),
    ("web:member", "get"): (405, 405, 405, 405, 405, 302),
    ("web:member", "post"): (404, 404, 404, 400, 400, 302),
    ("web:node", "get"): (404, 404, 404, 404, 200, 302),
    ("web:node", "post"): (404, 404, 404, 404, 405, 302),
    ("web:node_add", "get"): (404, 404, 404, 404, 200, 302),
    ("web:node_add", "post"): (404, 404, 404, 404, 400, 302),
    ("web:node_settings", "get"): (404, 404, 404, 404, 200, 302),
    ("web:node_settings", "post"): (404, 404, 404, 404, 200, 302),
    ("web:gpu_pin", "get"): (404, 404, 404, 404, 405, 302),
    ("web:gpu_pin", "post"): (404, 404, 404, 404, 302, 302),
    ("web:node_retire", "get"): (404, 404, 404, 404, 200, 302),
    ("web:node_retire", "post"): (404, 404, 404, 404, 302, 302),
    ("web:policy", "get"): (404, 404, 404, 404, 200, 302),
    ("web:policy", "post"): (404, 404, 404, 404, 400, 302),
    ("web:portal_settings", "get"): (404, 404, 404, 404, 200, 302),
    ("web:portal_settings", "post"): (404, 404, 404, 404, 405, 302),
    ("web:what_if", "get"): (404, 404, 404, 404, 200, 302),
    ("web:what_if", "post"): (404, 404, 404, 404, 405, 302),
    ("web:what_if_cancel", "get"): (404, 404, 404, 404, 405, 302),
    ("web:what_if_cancel", "post"): (404, 404, 404, 404, 302, 302),
    ("web:what_ifs", "get"): (404, 404, 404, 404, 200, 302),
    ("web:what_ifs", "post"): (404, 404, 404, 404, 400, 302),
    ("web:node_join_token", "get"): (404, 404, 404, 404, 405, 302),
    ("web:node_join_token", "post"): (404, 404, 404, 404, 200, 302),
    ("web:node_withdraw", "get"): (404, 404, 404, 404, 405, 302),
    ("web:node_withdraw", "post"): (404, 404, 404, 404, 302, 302),
    ("web:notices", "get"): (200, 200, 200, 200, 200, 302),
    ("web:notices", "post"): (400, 400, 400, 400, 400, 302),
    ("web:notices_stop", "get"): (404, 404, 404, 404, 404, 404),
    ("web:notices_stop", "post"): (404, 404, 404, 404, 404, 404),
    ("web:notices_test", "get"): (405, 405, 405, 405, 405, 405),
    ("web:notices_test", "post"): (302, 302, 302, 302, 302, 302),
    ("web:node_list", "get"): (404, 404, 404, 404, 200, 302),
    ("web:node_list", "post"): (404, 404, 404, 404, 200, 302),
    ("web:preview", "get"): (404, 404, 404, 404, 200, 302),
    ("web:preview", "post"): (404, 404, 404, 404, 200, 302),
    ("web:project", "get"): (200, 200, 404, 200, 200, 302),
    ("web:project", "post"): (200, 200, 404, 200, 200, 302),
    ("web:project_archive", "get"): (404, 404, 404, 404, 405, 302),
    ("web:project_archive", "post"): (404, 404, 404, 404, 302, 302),
    ("web:project_settings", "get"): (404, 404, 404, 404, 200, 302),
    ("web:project_settings", "post"): (404, 404, 404, 404, 400, 302),
    ("web:project_new", "get"): (404, 404, 404, 404, 200, 302),
    ("web:project_new", "post"): (404, 404, 404, 404, 400, 302),
    ("web:projects", "get"): (200, 200, 200, 200, 200, 302),
    ("web:projects", "post"): (200, 200, 200, 200, 200, 302),
    ("web:queue", "get"): (200, 200, 200, 200, 200, 302),
    ("web:queue", "post"): (200, 200, 200, 200, 200, 302),
    ("web:quota", "get"): (404, 404, 404, 404, 200, 302),
    ("web:quota", "post"): (404, 404, 404, 404, 400, 302),
    ("web:release", "get"): (405, 405, 405, 405, 405, 302),
    ("web:release", "post"): (403, 302, 404, 302, 302, 302),
    ("web:request", "get"): (200, 200, 200, 200, 200, 302),
    ("web:request", "post"): (400, 400, 400, 400, 400, 302),
    ("web:compare", "get"): (200, 200, 200, 200, 200, 302),
    ("web:compare", "post"): (405, 405, 405, 405, 405, 302),
    ("web:compare_csv", "get"): (200, 200, 200, 200, 200, 302),
    ("web:compare_csv", "post"): (405, 405, 405, 405, 405, 302),
    ("web:search", "get"): (200, 200, 200, 200, 200, 302),
    ("web:search", "post"): (405, 405, 405, 405, 405, 302),
    ("web:search_options", "get"): (200, 200, 200, 200, 200, 302),
    ("web:search_options", "post"): (405, 405, 405, 405, 405, 302),
    ("web:sign_in", "get"): (302, 302, 302, 302, 302, 200),
    ("web:sign_in", "post"): (302, 302, 302, 302, 302, 200),
    ("web:sign_out", "get"): (405, 405, 405, 405, 405, 405),
    ("web:sign_out", "post"): (302, 302, 302, 302, 302, 302),
    ("web:template", "get"): (404, 200, 404, 200, 200, 302),
    ("web:template", "post"): (404, 400, 404, 400, 400, 302),
    ("web:template_new", "get"): (404, 200, 200, 200, 200, 302),
    ("web:template_new", "post"): (404, 400, 400, 400, 400, 302),
    ("web:templates", "get"): (200, 200, 200, 200, 200, 302),
    ("web:templates", "post"): (200, 200, 200, 200, 200, 302),
    ("web:template_search", "get"): (200, 200, 200, 200, 200, 302),
    ("web:template_search", "post"): (405, 405, 405, 405, 405, 302),
    ("web:time_zone", "get"): (405, 405, 405, 405, 405, 405),
    ("web:time_zone", "post"): (302, 302, 302, 302, 302, 302),
    ("web:token_revoke", "get"): (404, 200, 404, 404, 404, 302),
    ("web:token_revoke", "post"): (404, 302, 404, 404, 404, 302),
    ("web:tokens", "get"): (302, 302, 302, 302, 302, 302),
    ("web:tokens", "post"): (400, 400, 400, 400, 400, 302),
    ("web:unfreeze", "get"): (404, 404, 404, 404, 405, 302),
    ("web:unfreeze", "post"): (404, 404, 404, 404, 302, 302),
    ("web:user", "get"): (404, 404, 404, 404, 200, 302),
    ("web:user", "post"): (404, 404, 404, 404, 405, 302),
    ("web:user_activate", "get"): (404, 404, 404, 404, 405, 302),
    ("web:user_activate", "post"): (404, 404, 404, 404, 302, 302),
    ("web:user_deactivate", "get"): (404, 404, 404, 404, 200, 302),
    ("web:user_deactivate", "post"): (404, 404, 404, 404, 302, 302),
    ("web:user_link", "get"): (404, 404, 404, 404, 405, 302),
    ("web:user_link", "post"): (404, 404, 404, 404, 200, 302),
    ("web:user_list", "get"): (404, 404, 404, 404, 200, 302),
    ("web:user_list", "post"): (404, 404, 404, 404, 405, 302),
    ("web:user_new", "get"): (404, 404, 404, 404, 200, 302),
    ("web:user_new", "post"): (404, 404, 404, 404, 400, 302),
    ("web:user_rights", "get"): (404, 404, 404, 404, 405, 302),
    ("web:user_rights", "post"): (404, 404, 404, 404, 302, 302),
    ("web:user_second_steps", "get"): (404, 404, 404, 404, 405, 302),
    ("web:user_second_steps", "post"): (404, 404, 404, 404, 302, 302),
    ("web:welcome", "get"): (200, 200, 200, 200, 200, 200),
    ("web:welcome", "post"): (200, 200, 200, 200, 200, 200),
    ("web:uncordon", "get"): (404, 404, 404, 404, 405, 302),
    ("web:uncordon", "post"): (404, 404, 404, 404, 302, 302),
    ("web:usage", "get"): (200, 200, 200, 200, 200, 302),
    ("web:usage", "post"): (200, 200, 200, 200, 200, 302),
    ("web:usage_file", "get"): (200, 200, 200, 200, 200, 302),
    ("web:usage_file", "post"): (200, 200, 200, 200, 200, 302),
    ("web:webhook", "get"): (404, 200, 404, 404, 404, 302),
    ("web:webhook", "post"): (405, 405, 405, 405, 405, 405),
    ("web:webhook_again", "get"): (405, 405, 405, 405, 405, 405),
    ("web:webhook_again", "post"): (404, 302, 404, 404, 404, 302),
    ("web:webhook_remove", "get"): (405, 405, 405, 405, 405, 405),
    ("web:webhook_remove", "post"): (404, 302, 404, 404, 404, 302),
    ("web:webhook_test", "get"): (405, 405, 405, 405, 405, 405),
    ("web:webhook_test", "post"): (404, 302, 404, 404, 404, 302),
    ("web:webhooks", "get"): (200, 200, 200, 200, 200, 302),
    ("web:webhooks", "post"): (400, 400, 400, 400, 400, 302),
}


@pytest.fixture(scope="module")
def rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    with module_rows(django_db_blocker):
        yield a_world()


@pytest.fixture
def world(rows: World) -> World:
    cache.clear()
    return with_names_of_pages(rows)


def statuses(world: World, page: str, method: str, kinds: tuple[str, ...]) -> tuple[int, ...]:
    address = address_of(world, page)
    return tuple(world.status(kind, method, address, {}, **{"X-Form": "1"}) for kind in kinds)


def test_every_page_has_a_row():
    assert {page for page, _ in ROWS} | set(STREAMS) == set(PAGES)


@pytest.mark.parametrize(("page", "method"), sorted(ROWS), ids=str)
def test_matrix(world: World, page: str, method: str):
    *people, outside = ROWS[page, method]
    assert statuses(world, page, method, PEOPLE) == tuple(people)
    assert statuses(world, page, method, OUTSIDE) == (outside,) * len(OUTSIDE)


def test_the_admin_console_is_for_platform_admins(world: World):
    found = [pattern for name, pattern in routes(get_resolver()) if name.startswith("admin:")]
    lists = [f"/{pattern}" for pattern in found if "<" not in pattern and "(" not in pattern]
    assert len(lists) > 20
    shown = 0
    for address in lists:
        if "logout" in address or "login" in address or "password_change" in address:
            continue
        for kind in (*PEOPLE[:-1], *OUTSIDE):
            assert world.status(kind, "get", address, {}) in (302, 403, 404, 405), (kind, address)
        answer = world.status("platform_admin", "get", address, {})
        assert answer in (200, 302, 400, 403, 404, 405), address
        shown += answer == 200
    assert shown > 10
