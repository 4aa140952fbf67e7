"""The pages."""

from allauth.account.views import login
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from portal.web import language as sign_in
from portal.web.account import sessions as browsers
from portal.web.account import tokens
from portal.web.account import views as page
from portal.web.cluster import stream
from portal.web.cluster import views as cluster
from portal.web.home import views as home
from portal.web.job import extension as extend
from portal.web.job import log_page as logs_page
from portal.web.job import stream as job_stream
from portal.web.job import views as job_page
from portal.web.jobs import export as job_list_csv
from portal.web.jobs import stream as list_stream
from portal.web.jobs import views as jobs_page
from portal.web.queue import views as queue_page
from portal.web.request import stream as request_stream
from portal.web.request import views as request_page
from portal.web.usage import views as usage_page
from portal.web.webhooks import views as webhook_pages

app_name = "web"
urlpatterns = [
    path("", include("portal.web.console.urls")),
    path("", home.home, name="home"),
    path("sign-in/", login, name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("language/", sign_in.set_language, name="language"),
    path("account/", page.account, name="account"),
    path("account/tokens/", tokens.create, name="tokens"),
    path("account/tokens/<str:key>/revoke", tokens.revoke, name="token_revoke"),
    path("account/webhooks/", webhook_pages.webhooks, name="webhooks"),
    path("account/webhooks/<str:ref>/", webhook_pages.webhook, name="webhook"),
    path(
        "account/webhooks/<str:ref>/test",
        webhook_pages.act,
        {"action": "test"},
        name="webhook_test",
    ),
    path(
        "account/webhooks/<str:ref>/remove",
        webhook_pages.act,
        {"action": "remove"},
        name="webhook_remove",
    ),
    path(
        "account/webhooks/<str:ref>/<str:delivery>/again",
        webhook_pages.delivery_retry,
        name="webhook_again",
    ),
    path("account/browsers/<int:pk>/end", browsers.end, name="browser_end"),
    path("account/browsers/end", browsers.end_others, name="browsers_end"),
    path("request/", request_page.request_page, name="request"),
    path("request/check", request_page.request_preview, name="check"),
    path("request/stream", request_stream.request_stream, name="request_stream"),
    path("request/templates", request_page.template_search, name="template_search"),
    path("jobs/", jobs_page.jobs, name="jobs"),
    path("jobs.csv", job_list_csv.jobs_csv, name="jobs_csv"),
    path("jobs/cancel", jobs_page.bulk_cancel, name="bulk_cancel"),
    path("jobs/stream", list_stream.jobs_stream, name="jobs_stream"),
    path("queue/", queue_page.queue, name="queue"),
    path("queue/stream", list_stream.queue_stream, name="queue_stream"),
    path("jobs/<str:ref>/hold", queue_page.hold, name="hold"),
    path("jobs/<str:ref>/release", queue_page.release, name="release"),
    path("jobs/<str:ref>/", job_page.job, name="job"),
    path("jobs/<str:ref>/extend", extend.extend, name="extend"),
    path("jobs/<str:ref>/cancel", job_page.cancel, name="cancel"),
    path("jobs/<str:ref>/again", job_page.retry, name="again"),
    path("jobs/<str:ref>/instead", job_page.take_alternative, name="instead"),
    *(
        path(f"jobs/<str:ref>/{tab}", job_page.job, {"tab": tab}, name=f"job_{tab}")
        for tab in job_page.TABS
    ),
    path("jobs/<str:ref>/logs/full", logs_page.logs_full, name="logs_full"),
    path("jobs/<str:ref>/log", logs_page.raw_log, name="log"),
    path("jobs/<str:ref>/stream", job_stream.job_stream, name="stream"),
    path("usage/", usage_page.usage_page, name="usage"),
    path("usage/file.csv", usage_page.usage_csv, name="usage_file"),
    path("cluster/stream", stream.cluster_stream, name="cluster_stream"),
    path("cluster/", cluster.cluster, name="cluster"),
    path("cluster/<str:name>/", cluster.node, name="cluster_node"),
]
