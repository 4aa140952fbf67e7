"""REST views of the images that a project's jobs may use."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.accounts.selectors import visible_project
from portal.api.images.serializers import (
    IMAGES_EXAMPLE,
    ImagePolicyRequestSerializer,
    ImagePolicySerializer,
)
from portal.api.protocol.permissions import IsPlatformAdmin, SeesProject
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import ETAG, IF_MATCH, if_match_number, stale_version_shown
from portal.api.protocol.views import ApiView
from portal.catalogue.models import ImagePolicy, ImageRule
from portal.catalogue.selectors import image_policy_of
from portal.catalogue.services import image_policy_set


class ProjectImages(ApiView):
    scopes = {"PUT": TokenScope.ADMIN}
    permissions = {"PUT": (SeesProject, IsPlatformAdmin)}

    @extend_schema(
        operation_id="project_images", parameters=[ETAG], responses=ImagePolicySerializer
    )
    def get(self, request: ApiRequest, project: str) -> Response:
        """The project's image policy. Version 0: none has been set, and any image is allowed."""
        return _response(image_policy_of(visible_project(request.caller, project)))

    @extend_schema(
        operation_id="project_images_set",
        request=ImagePolicyRequestSerializer,
        responses=ImagePolicySerializer,
        parameters=[IF_MATCH, ETAG],
        examples=[IMAGES_EXAMPLE],
    )
    def put(self, request: ApiRequest, project: str) -> Response:
        """Set the image policy for new jobs. Waiting and running jobs are not affected."""
        row = visible_project(request.caller, project)
        version = if_match_number(request)
        body = request.validated_data(ImagePolicyRequestSerializer)
        rule, patterns = ImageRule(body["rule"]), body["patterns"]

        def current() -> tuple[Any, int]:
            policy = image_policy_of(row)
            return ImagePolicySerializer(policy).data, policy.version

        with stale_version_shown(request.data, current):
            policy = image_policy_set(
                project=row, actor=request.caller, rule=rule, patterns=patterns, version=version
            )
        return _response(policy)


def _response(row: ImagePolicy) -> Response:
    return Response(ImagePolicySerializer(row).data, headers={"ETag": f'"{row.version}"'})
