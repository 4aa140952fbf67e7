"""The pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from portal.web import cluster, home, job_page, jobs_page, request_page, sign_in, stream

app_name = "web"
urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in/", sign_in.SignIn.as_view(), name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("language/", sign_in.language, name="language"),
    path("request/", request_page.request_page, name="request"),
    path("request/check", request_page.check, name="check"),
    path("jobs/", jobs_page.jobs, name="jobs"),
    path("jobs/<str:ref>/", job_page.job, name="job"),
    path("jobs/<str:ref>/cancel", job_page.cancel, name="cancel"),
    path("jobs/<str:ref>/instead", job_page.instead, name="instead"),
    path("jobs/<str:ref>/log", job_page.raw_log, name="log"),
    path("jobs/<str:ref>/stream", stream.job_stream, name="stream"),
    path("cluster/stream", stream.cluster_stream, name="cluster_stream"),
    path("cluster/", cluster.cluster, name="cluster"),
]
