"""The URLs of the pages."""

from allauth.account.views import login
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from portal.web.account import notices, sessions, tokens
from portal.web.account import views as account_views
from portal.web.account.welcome import Welcome
from portal.web.advice import misconceptions
from portal.web.advice import views as advice_views
from portal.web.app_access import views as app_access
from portal.web.array import views as array_views
from portal.web.array.stream import array_stream
from portal.web.cluster import views as cluster_views
from portal.web.cluster.stream import cluster_stream
from portal.web.comparison import views as comparison_views
from portal.web.home import views as home_views
from portal.web.home.stream import home_stream
from portal.web.job import file_downloads, file_removal, log_page
from portal.web.job import views as job_views
from portal.web.job.apps import app_open
from portal.web.job.context import TABS
from portal.web.job.extension import extend
from portal.web.job.limit_request import limit_request
from portal.web.job.stream import job_stream
from portal.web.job_services import views as job_services_views
from portal.web.jobs import export as jobs_export
from portal.web.jobs import views as jobs_views
from portal.web.jobs.stream import jobs_stream
from portal.web.language import set_language
from portal.web.project_choice import choose_project
from portal.web.project_code import removal as project_code_removal
from portal.web.project_code import views as project_code
from portal.web.queue import export as queue_export
from portal.web.queue import views as queue_views
from portal.web.queue.stream import queue_stream
from portal.web.registries import views as registries
from portal.web.request import views as request_views
from portal.web.request.stream import request_stream
from portal.web.search import views as search_views
from portal.web.secrets import views as secrets
from portal.web.time_zone import set_time_zone
from portal.web.usage import views as usage_views
from portal.web.webhooks import views as webhooks_views

app_name = "web"
urlpatterns = [
    path("", include("portal.web.console.urls")),
    path("", home_views.home, name="home"),
    path("home/stream", home_stream, name="home_stream"),
    path("home/project", choose_project, name="choose_project"),
    path("sign-in/", login, name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("language/", set_language, name="language"),
    path("account/time-zone/", set_time_zone, name="time_zone"),
    path("welcome/<uidb64>/<token>/", Welcome.as_view(), name="welcome"),
    path("account/", account_views.account, name="account"),
    path("account/tokens/", tokens.create, name="tokens"),
    path("account/tokens/<str:key>/revoke", tokens.revoke, name="token_revoke"),
    path("account/notices/", notices.notices, name="notices"),
    path("account/notices/test", notices.test_mail, name="notices_test"),
    path("notices/stop/<str:token>/", notices.stop, name="notices_stop"),
    path("account/secrets/", secrets.secrets, name="secrets"),
    path("account/secrets/<str:secret>/delete", secrets.delete, name="secret_delete"),
    path("projects/<slug:slug>/secrets/", secrets.project_secrets, name="project_secrets"),
    path(
        "projects/<slug:slug>/secrets/<str:secret>/delete",
        secrets.project_delete,
        name="project_secret_delete",
    ),
    path("projects/<slug:slug>/code/", project_code.project_code_page, name="project_code"),
    path(
        "projects/<slug:slug>/code/<uuid:tree>/remove",
        project_code_removal.remove,
        name="project_code_remove",
    ),
    path("projects/<slug:slug>/registries/", registries.registries, name="registries"),
    path(
        "projects/<slug:slug>/registries/<path:registry>/delete",
        registries.delete,
        name="registry_delete",
    ),
    path("account/webhooks/", webhooks_views.webhooks, name="webhooks"),
    path("account/webhooks/<str:ref>/", webhooks_views.webhook, name="webhook"),
    path(
        "account/webhooks/<str:ref>/test",
        webhooks_views.act,
        {"action": "test"},
        name="webhook_test",
    ),
    path(
        "account/webhooks/<str:ref>/remove",
        webhooks_views.act,
        {"action": "remove"},
        name="webhook_remove",
    ),
    path(
        "account/webhooks/<str:ref>/<str:delivery>/again",
        webhooks_views.delivery_retry,
        name="webhook_again",
    ),
    path("account/browsers/<int:pk>/end", sessions.end, name="browser_end"),
    path("account/browsers/end", sessions.end_others, name="browsers_end"),
    path("advise/", advice_views.advise, name="advise"),
    path("advise/misconceptions/", misconceptions.misconceptions_page, name="misconceptions"),
    path("request/", request_views.request_page, name="request"),
    path("request/preview", request_views.request_preview, name="request_preview"),
    path("request/stream", request_stream, name="request_stream"),
    path("request/templates", request_views.template_search, name="template_search"),
    path("arrays/<str:array>/", array_views.array_page, name="array"),
    path("arrays/<str:array>/stream", array_stream, name="array_stream"),
    path("arrays/<str:array>/metrics.csv", array_views.metrics_csv, name="array_metrics_csv"),
    path("arrays/<str:array>/cancel", array_views.cancel, name="array_cancel"),
    path("arrays/<str:array>/retry", array_views.retry, name="array_retry"),
    path("jobs/", jobs_views.jobs, name="jobs"),
    path("jobs.csv", jobs_export.jobs_csv, name="jobs_csv"),
    path("jobs/cancel", jobs_views.bulk_cancel, name="bulk_cancel"),
    path("jobs/stream", jobs_stream, name="jobs_stream"),
    path("jobs/compare", comparison_views.compare, name="compare"),
    path("jobs/compare.csv", comparison_views.compare_csv, name="compare_csv"),
    path("services/", job_services_views.services, name="services"),
    path("services/new/", job_services_views.new, name="service_new"),
    path("services/<str:service>/", job_services_views.service, name="service"),
    path("services/<str:service>/open", job_services_views.open_service, name="service_open"),
    path("services/<str:service>/change", job_services_views.change, name="service_change"),
    path("services/<str:service>/promote", job_services_views.promote, name="service_promote"),
    path("services/<str:service>/end", job_services_views.end, name="service_end"),
    path("search/", search_views.search, name="search"),
    path("search/options", search_views.search_options, name="search_options"),
    path("queue/", queue_views.queue, name="queue"),
    path("queue.csv", queue_export.queue_csv, name="queue_csv"),
    path("queue/stream", queue_stream, name="queue_stream"),
    path("jobs/<str:ref>/hold", queue_views.hold, name="hold"),
    path("jobs/<str:ref>/release", queue_views.release, name="release"),
    path("jobs/<str:ref>/", job_views.job, name="job"),
    path("jobs/<str:ref>/apps/<str:app>/open", app_open, name="app_open"),
    path("jobs/<str:ref>/apps/<str:app>/people", app_access.guests, name="app_guests"),
    path(
        "jobs/<str:ref>/apps/<str:app>/people/<str:guest>/remove",
        app_access.guest_remove,
        name="app_guest_remove",
    ),
    path("apps/", app_access.apps, name="apps"),
    path("apps/tokens/<str:key>/revoke", app_access.token_revoke, name="app_token_revoke"),
    path("jobs/<str:ref>/extend", extend, name="extend"),
    path("jobs/<str:ref>/cancel", job_views.cancel, name="cancel"),
    path("jobs/<str:ref>/retry", job_views.retry, name="retry"),
    path("jobs/<str:ref>/limit-request", limit_request, name="limit_request"),
    path("jobs/<str:ref>/alternative", job_views.take_alternative, name="alternative"),
    *(
        path(f"jobs/<str:ref>/{tab}", job_views.job, {"tab": tab}, name=f"job_{tab}")
        for tab in TABS
    ),
    path("jobs/<str:ref>/logs/full", log_page.logs_full, name="logs_full"),
    path("jobs/<str:ref>/log", log_page.raw_log, name="raw_log"),
    path("jobs/<str:ref>/files/<uuid:tree>/remove", file_removal.remove, name="tree_remove"),
    path("trees/<uuid:tree>/file", file_downloads.file_download, name="tree_file"),
    path("trees/<uuid:tree>/image", file_downloads.image, name="tree_image"),
    path("trees/<uuid:tree>/archive", file_downloads.archive, name="tree_archive"),
    path("jobs/<str:ref>/stream", job_stream, name="job_stream"),
    path("usage/", usage_views.usage_page, name="usage"),
    path("usage/file.csv", usage_views.usage_csv, name="usage_file"),
    path("cluster/stream", cluster_stream, name="cluster_stream"),
    path("cluster/", cluster_views.cluster, name="cluster"),
    path("cluster/<str:name>/", cluster_views.node, name="cluster_node"),
]
