"""REST views of apps: those of a job with their guests, what others share, and tokens for apps."""

from datetime import timedelta

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.accounts.selectors import visible_project
from portal.api.job_apps.serializers import (
    AppGuestSerializer,
    AppTokenRequestSerializer,
    AppTokenSerializer,
    GuestAppSerializer,
    JobAppSerializer,
    NewAppTokenSerializer,
)
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.apps.access import app_rights, job_apps
from portal.apps.guests import (
    app_guest_add,
    app_guest_remove,
    guest_apps,
    guests_by_app,
    job_with_app,
)
from portal.apps.hosts import AppName, app_address
from portal.apps.tokens import (
    app_token_create,
    app_token_of,
    app_token_revoke,
    app_tokens_of,
)
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.selectors import job_visible


class JobAppList(ApiView):
    @extend_schema(operation_id="job_app_list", responses=list_response(JobAppSerializer))
    def get(self, request: ApiRequest, job: str) -> Response:
        """The apps of a job, with the people with whom its owner shares them."""
        row = job_visible(request.caller, job)
        rights, guests = app_rights([request.caller], [row]), guests_by_app(row)
        apps = [
            {
                "name": app,
                "port": port,
                "address": _address(request, row.pk, app),
                "may_open": rights.may_visit(request.caller, row, app),
                "guests": guests.get(app, []),
            }
            for app, port in job_apps(row).items()
        ]
        return Response({"results": JobAppSerializer(apps, many=True).data})


class AppGuestDetail(ApiView):
    # A guest outlives the token that added them.
    scopes = {"PUT": TokenScope.ADMIN, "DELETE": TokenScope.ADMIN}
    service_roles = {
        "PUT": "owner of the job",
        "DELETE": "owner of the job, or admin of its project",
    }

    @extend_schema(operation_id="app_guest_add", request=None, responses=AppGuestSerializer)
    def put(self, request: ApiRequest, job: str, app: str, guest: str) -> Response:
        """Share an app of your job with a person: they open it while the job runs, and see nothing
        else of it. Of a notebook, they act with your files and secrets."""
        row = job_visible(request.caller, job)
        added = app_guest_add(job=row, app=app, username=guest, actor=request.caller)
        return Response(AppGuestSerializer(added).data)

    @extend_schema(operation_id="app_guest_remove", responses={204: None})
    def delete(self, request: ApiRequest, job: str, app: str, guest: str) -> Response:
        """Take an app back from a person. What they have open of it ends within 5 seconds."""
        row = job_visible(request.caller, job)
        app_guest_remove(job=row, app=app, username=guest, actor=request.caller)
        return Response(status=status.HTTP_204_NO_CONTENT)


class GuestAppList(ApiView):
    @extend_schema(operation_id="guest_app_list", responses=list_response(GuestAppSerializer))
    def get(self, request: ApiRequest) -> Response:
        """The apps that others share with you now."""
        context = {"address": lambda job_pk, app: _address(request, job_pk, app)}
        rows = GuestAppSerializer(guest_apps(request.caller), many=True, context=context)
        return Response({"results": rows.data})


class AppTokenList(ApiView):
    # A narrow token must not create one that outlives it.
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="app_token_list", responses=list_response(AppTokenSerializer))
    def get(self, request: ApiRequest) -> Response:
        """Your tokens for apps, newest first, with what was called with each."""
        rows = app_tokens_of(request.caller)
        return Response({"results": AppTokenSerializer(rows, many=True).data})

    @extend_schema(
        operation_id="app_token_create",
        request=AppTokenRequestSerializer,
        responses={201: NewAppTokenSerializer},
    )
    def post(self, request: ApiRequest) -> Response:
        """Create a token with which a program calls apps as you: one app of one job (`job`, `app`),
        or all apps of a project that you may open (`project`). The response shows it, this once."""
        body = request.validated_data(AppTokenRequestSerializer)
        if bool(body["job"] and body["app"]) == bool(body["project"]):
            sentence = "Name either a job and its app, or a project"
            raise Refused(ErrorCode.INVALID_FIELD, sentence, "app")
        job = None
        if body["job"]:
            job = job_with_app(request.caller, body["job"], body["app"])
        project = job.project if job else visible_project(request.caller, body["project"])
        row, text = app_token_create(
            user=request.caller,
            name=body["name"],
            project=project,
            job=job,
            app=body["app"],
            ttl=timedelta(days=body["days"]),
        )
        data = NewAppTokenSerializer(row, context={"token": text}).data
        headers = {"Cache-Control": "no-store"}
        return Response(data, status=status.HTTP_201_CREATED, headers=headers)


class AppTokenDetail(ApiView):
    scopes = {"DELETE": TokenScope.ADMIN}

    @extend_schema(operation_id="app_token_revoke", responses={204: None})
    def delete(self, request: ApiRequest, app_token: str) -> Response:
        """Revoke one of your tokens for apps. What is open with it ends within 5 seconds."""
        row = app_token_of(request.caller, app_token)
        if row is None:
            raise Refused(ErrorCode.NOT_FOUND, "You have no such token")
        app_token_revoke(token=row, actor=request.caller)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _address(request: ApiRequest, job_pk: int, app: str) -> str:
    portal = f"{request.scheme}://{request.get_host()}"
    return app_address(AppName(job_pk, app), settings.PLATFORM.apps_domain, portal)
