"""Which images the jobs of a project may ask for, over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Scope
from portal.accounts.rights import require_platform_admin
from portal.api.accounts.projects import project_visible
from portal.api.jobs.examples import IMAGES_EXAMPLE
from portal.api.jobs.responses import asked
from portal.api.protocol.authentication import caller
from portal.api.protocol.versions import ETAG, IF_MATCH, both_versions, number_seen
from portal.catalogue.models import ImagePolicy, ImageRule
from portal.catalogue.selectors import image_policy_of
from portal.catalogue.services import MOST_PATTERNS, image_policy_set


class ImagePolicyShape(serializers.ModelSerializer[ImagePolicy]):
    project = serializers.CharField(source="project.slug")
    patterns = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = ImagePolicy
        fields = ("project", "rule", "patterns", "version")


class ImagePolicyBody(serializers.Serializer[Any]):
    rule = serializers.ChoiceField(
        choices=[(str(rule), str(rule)) for rule in ImageRule],
        help_text="any: what the platform allows; listed: of that, what `patterns` name",
    )
    patterns = serializers.ListField(
        child=serializers.CharField(max_length=200, trim_whitespace=False),
        default=list,
        max_length=MOST_PATTERNS,
        help_text="names of images, in which * stands for anything",
    )


class ProjectImages(APIView):
    scopes = {"PUT": Scope.ADMIN}

    @extend_schema(operation_id="project_images", parameters=[ETAG], responses=ImagePolicyShape)
    def get(self, request: Request, project: str) -> Response:
        """The list; version 0 where nobody has set one, and any image may be asked for."""
        return _shown(image_policy_of(project_visible(caller(request), project)))

    @extend_schema(
        operation_id="project_images_set",
        request=ImagePolicyBody,
        responses=ImagePolicyShape,
        parameters=[IF_MATCH, ETAG],
        examples=[IMAGES_EXAMPLE],
    )
    def put(self, request: Request, project: str) -> Response:
        """Of new jobs: what waits and runs goes on."""
        row, user = project_visible(caller(request), project), caller(request)
        require_platform_admin(user)
        version, body = number_seen(request), asked(ImagePolicyBody, request.data)
        rule, patterns = ImageRule(body["rule"]), body["patterns"]

        def now() -> tuple[Any, int]:
            policy = image_policy_of(row)
            return ImagePolicyShape(policy).data, policy.version

        with both_versions(request.data, now):
            policy = image_policy_set(
                project=row, by=user, rule=rule, patterns=patterns, version=version
            )
        return _shown(policy)


def _shown(row: ImagePolicy) -> Response:
    return Response(ImagePolicyShape(row).data, headers={"ETag": f'"{row.version}"'})
