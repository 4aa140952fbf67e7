"""All routes of REST v1. tests/integration/test_api_rights.py has a row for each of them."""

from csp.decorators import csp_replace
from django.urls import path, re_path
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.api.advice import views as advice
from portal.api.arrays import metric_views as array_metrics
from portal.api.arrays import views as arrays
from portal.api.availability import views as availability
from portal.api.devices import views as devices
from portal.api.disputes import views as disputes
from portal.api.files import views as files
from portal.api.images import views as images
from portal.api.job_apps import views as job_apps
from portal.api.job_services import views as job_services
from portal.api.jobs import action_views as job_actions
from portal.api.jobs import (
    bulk_cancel_views,
    bulk_submit_views,
    event_stream,
    metric_views,
    profile_views,
    rank_network_views,
    rank_views,
    telemetry_views,
)
from portal.api.jobs import views as jobs
from portal.api.limit_requests import views as limit_requests
from portal.api.me import views as me
from portal.api.nodes import views as nodes
from portal.api.pair_measurements import views as pair_measurements
from portal.api.partitions import views as partitions
from portal.api.prices import views as prices
from portal.api.projects import views as projects
from portal.api.quotas import views as quotas
from portal.api.registries import views as registries
from portal.api.secrets import views as secrets
from portal.api.templates import views as templates
from portal.api.tokens import views as tokens
from portal.api.usage import views as usage
from portal.api.volumes import views as volumes
from portal.api.webhooks import views as webhooks
from portal.api.what_ifs import views as what_ifs
from portal.error_codes import ErrorCode
from portal.errors import Refused

app_name = "api"


@extend_schema(exclude=True)
class NoRoute(APIView):
    """Any other address under /api/v1/: a problem, not a page."""

    authentication_classes = []
    permission_classes = []

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        raise Refused(ErrorCode.NOT_FOUND, "No such address. See /api/v1/docs/")


# Swagger UI sets style elements and attributes, so only its page may use inline styles.
DOCS = csp_replace({"style-src": ["'self'", "'unsafe-inline'"]})(
    SpectacularSwaggerSplitView.as_view(url_name="api:schema")
)

urlpatterns = [
    path("advice", advice.AdviceView.as_view(), name="advice"),
    path("jobs", jobs.JobList.as_view(), name="jobs"),
    path("jobs/bulk", bulk_submit_views.BulkSubmit.as_view(), name="jobs-bulk"),
    path("jobs/cancel", bulk_cancel_views.BulkCancel.as_view(), name="jobs-cancel"),
    path("jobs/<str:job>", jobs.JobDetail.as_view(), name="job"),
    path("jobs/<str:job>/cancel", job_actions.JobCancel.as_view(), name="job-cancel"),
    path("jobs/<str:job>/extend", job_actions.JobExtend.as_view(), name="job-extend"),
    path("jobs/<str:job>/retry", job_actions.JobRetry.as_view(), name="job-retry"),
    path("jobs/<str:job>/replace", job_actions.JobReplace.as_view(), name="job-replace"),
    path("jobs/<str:job>/hold", job_actions.JobHold.as_view(), name="job-hold"),
    path("jobs/<str:job>/release", job_actions.JobRelease.as_view(), name="job-release"),
    path("jobs/<str:job>/approve", job_actions.JobApprove.as_view(), name="job-approve"),
    path("jobs/<str:job>/refuse", job_actions.JobRefuse.as_view(), name="job-refuse"),
    path(
        "jobs/<str:job>/limit-request",
        limit_requests.JobLimitRequest.as_view(),
        name="job-limit-request",
    ),
    path("limit-requests", limit_requests.LimitRequestList.as_view(), name="limit-requests"),
    path(
        "limit-requests/<str:limit_request>/grant",
        limit_requests.LimitRequestGrant.as_view(),
        name="limit-request-grant",
    ),
    path(
        "limit-requests/<str:limit_request>/decline",
        limit_requests.LimitRequestDecline.as_view(),
        name="limit-request-decline",
    ),
    path("arrays/<str:array>", arrays.ArrayDetail.as_view(), name="array"),
    path("arrays/<str:array>/cancel", arrays.ArrayCancel.as_view(), name="array-cancel"),
    path(
        "arrays/<str:array>/metrics",
        array_metrics.ArrayMetricsView.as_view(),
        name="array-metrics",
    ),
    path("arrays/<str:array>/approve", arrays.ArrayApprove.as_view(), name="array-approve"),
    path("arrays/<str:array>/refuse", arrays.ArrayRefuse.as_view(), name="array-refuse"),
    path("arrays/<str:array>/retry", arrays.ArrayRetry.as_view(), name="array-retry"),
    path("jobs/<str:job>/logs", jobs.JobLogs.as_view(), name="job-logs"),
    path(
        "jobs/<str:job>/logs/merged",
        rank_views.JobMergedLogView.as_view(),
        name="job-merged-log",
    ),
    path("jobs/<str:job>/ranks", rank_views.JobRanksView.as_view(), name="job-ranks"),
    path(
        "jobs/<str:job>/telemetry",
        telemetry_views.JobTelemetryView.as_view(),
        name="job-telemetry",
    ),
    path("jobs/<str:job>/metrics", metric_views.JobMetricsView.as_view(), name="job-metrics"),
    path(
        "jobs/<str:job>/rank-network",
        rank_network_views.JobRankNetworkView.as_view(),
        name="job-rank-network",
    ),
    path(
        "jobs/<str:job>/time-profile",
        profile_views.JobProfileView.as_view(),
        name="job-time-profile",
    ),
    path("jobs/<str:job>/events", jobs.JobEvents.as_view(), name="job-events"),
    path("jobs/<str:job>/apps", job_apps.JobAppList.as_view(), name="job-apps"),
    path(
        "jobs/<str:job>/apps/<str:app>/guests/<str:guest>",
        job_apps.AppGuestDetail.as_view(),
        name="app-guest",
    ),
    path("guest-apps", job_apps.GuestAppList.as_view(), name="guest-apps"),
    path("app-tokens", job_apps.AppTokenList.as_view(), name="app-tokens"),
    path("app-tokens/<str:app_token>", job_apps.AppTokenDetail.as_view(), name="app-token"),
    path("jobs/<str:job>/trees", files.JobTrees.as_view(), name="job-trees"),
    path("trees/<str:tree>", files.TreeDetail.as_view(), name="tree"),
    path("trees/<str:tree>/files", files.TreeFiles.as_view(), name="tree-files"),
    path("trees/<str:tree>/content", files.TreeContent.as_view(), name="tree-content"),
    path("trees/<str:tree>/archive", files.TreeArchive.as_view(), name="tree-archive"),
    path("events/stream", event_stream.EventStream.as_view(), name="event-stream"),
    path("me", me.MeView.as_view(), name="me"),
    path("nodes", nodes.NodeList.as_view(), name="nodes"),
    path("nodes/<str:node>", nodes.NodeDetail.as_view(), name="node"),
    path("nodes/<str:node>/cordon", nodes.NodeCordon.as_view(), name="node-cordon"),
    path("nodes/<str:node>/uncordon", nodes.NodeUncordon.as_view(), name="node-uncordon"),
    path("nodes/<str:node>/retire", nodes.NodeRetire.as_view(), name="node-retire"),
    path("nodes/<str:node>/revoke", nodes.NodeRevoke.as_view(), name="node-revoke"),
    path("nodes/<str:node>/unfreeze", nodes.NodeUnfreeze.as_view(), name="node-unfreeze"),
    path("nodes/<str:node>/join-token", nodes.NodeJoinToken.as_view(), name="node-join-token"),
    path(
        "nodes/<str:node>/allow-mass-removal",
        nodes.NodeAllowMassRemoval.as_view(),
        name="node-allow-mass-removal",
    ),
    path("availability", availability.AvailabilityDetail.as_view(), name="availability"),
    path("gpus", devices.GpuList.as_view(), name="gpus"),
    path("gpus/<str:gpu>/pin", partitions.GpuPin.as_view(), name="gpu-pin"),
    path("gpus/<str:gpu>/unpin", partitions.GpuUnpin.as_view(), name="gpu-unpin"),
    path(
        "partition-preview", partitions.PartitionPreviewDetail.as_view(), name="partition-preview"
    ),
    path("disputed-claims", disputes.DisputedClaimList.as_view(), name="disputed-claims"),
    path(
        "disputed-claims/<str:claim>/accept",
        disputes.DisputedClaimAccept.as_view(),
        name="disputed-claim-accept",
    ),
    path(
        "disputed-claims/<str:claim>/dismiss",
        disputes.DisputedClaimDismiss.as_view(),
        name="disputed-claim-dismiss",
    ),
    path(
        "pair-measurements",
        pair_measurements.PairMeasurementList.as_view(),
        name="pair-measurements",
    ),
    path(
        "pair-measurements/<str:measurement>/clear",
        pair_measurements.PairMeasurementClear.as_view(),
        name="pair-measurement-clear",
    ),
    path("slices", devices.SliceList.as_view(), name="slices"),
    path("prices", prices.Prices.as_view(), name="prices"),
    path("projects", projects.ProjectList.as_view(), name="projects"),
    path("projects/<str:project>", projects.ProjectDetail.as_view(), name="project"),
    path("projects/<str:project>/images", images.ProjectImages.as_view(), name="project-images"),
    path(
        "projects/<str:project>/secrets",
        secrets.ProjectSecretList.as_view(),
        name="project-secrets",
    ),
    path(
        "projects/<str:project>/secrets/<str:secret>",
        secrets.ProjectSecretDetail.as_view(),
        name="project-secret",
    ),
    path(
        "projects/<str:project>/registries",
        registries.RegistryList.as_view(),
        name="registries",
    ),
    # An address has slashes.
    path(
        "projects/<str:project>/registries/<path:registry>",
        registries.RegistryDetail.as_view(),
        name="registry",
    ),
    path(
        "projects/<str:project>/members/<str:user>",
        projects.ProjectMember.as_view(),
        name="project-member",
    ),
    path("projects/<str:project>/egress", projects.ProjectEgress.as_view(), name="project-egress"),
    path("projects/<str:project>/storage", files.ProjectStorage.as_view(), name="project-storage"),
    path(
        "projects/<str:project>/files/have",
        files.ProjectFilesHave.as_view(),
        name="project-files-have",
    ),
    path(
        "projects/<str:project>/files/<str:sha256>",
        files.ProjectFile.as_view(),
        name="project-file",
    ),
    path("projects/<str:project>/trees", files.ProjectTrees.as_view(), name="project-trees"),
    path("projects/<str:project>/commits", files.ProjectCommits.as_view(), name="project-commits"),
    path("quotas", quotas.QuotaList.as_view(), name="quotas"),
    path("quotas/<str:project>", quotas.ProjectQuota.as_view(), name="project-quota"),
    path("quotas/<str:project>/<str:user>", quotas.UserQuota.as_view(), name="user-quota"),
    path("secrets", secrets.SecretList.as_view(), name="secrets"),
    path("secrets/<str:secret>", secrets.SecretDetail.as_view(), name="secret"),
    path("volumes", volumes.VolumeList.as_view(), name="volumes"),
    path("volumes/<str:volume>", volumes.VolumeDetail.as_view(), name="volume"),
    path("templates", templates.TemplateList.as_view(), name="templates"),
    path("templates/<str:template>", templates.TemplateDetail.as_view(), name="template"),
    path("tokens", tokens.TokenList.as_view(), name="tokens"),
    path("tokens/<str:token>", tokens.TokenDetail.as_view(), name="token"),
    path("services", job_services.ServiceList.as_view(), name="services"),
    path("services/<str:service>", job_services.ServiceDetail.as_view(), name="service"),
    path(
        "services/<str:service>/promote",
        job_services.ServicePromote.as_view(),
        name="service-promote",
    ),
    path("webhooks", webhooks.WebhookList.as_view(), name="webhooks"),
    path("webhooks/<str:webhook>", webhooks.WebhookDetail.as_view(), name="webhook"),
    path("webhooks/<str:webhook>/test", webhooks.WebhookTest.as_view(), name="webhook-test"),
    path(
        "webhooks/<str:webhook>/deliveries",
        webhooks.WebhookDeliveries.as_view(),
        name="webhook-deliveries",
    ),
    path(
        "webhooks/<str:webhook>/deliveries/<str:delivery>/redeliver",
        webhooks.WebhookRedeliver.as_view(),
        name="webhook-redeliver",
    ),
    path("usage", usage.UsageView.as_view(), name="usage"),
    path("what-ifs", what_ifs.WhatIfList.as_view(), name="what-ifs"),
    path("what-ifs/<str:what_if>", what_ifs.WhatIfDetail.as_view(), name="what-if"),
    path("what-ifs/<str:what_if>/cancel", what_ifs.WhatIfCancel.as_view(), name="what-if-cancel"),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", DOCS, name="docs"),
    re_path(r"", NoRoute.as_view(), name="no-route"),
]
