"""Serializers of apps, their guests and tokens for them."""

from typing import Any

from rest_framework import serializers

from portal.accounts.services import MAX_TOKEN_TTL
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer
from portal.apps.models import AppGuest, AppToken


class AppGuestSerializer(UtcModelSerializer[AppGuest]):
    user = serializers.CharField(source="user.username")

    class Meta:
        model = AppGuest
        fields = ["user", "created_at"]


class JobAppSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    port = serializers.IntegerField()
    address = serializers.CharField(help_text="empty where the portal serves no apps")
    may_open = serializers.BooleanField(help_text="whether you may open it while the job runs")
    guests = AppGuestSerializer(many=True)


class GuestAppSerializer(UtcModelSerializer[AppGuest]):
    job = serializers.CharField(source="job.label")
    owner = serializers.CharField(source="job.owner.username")
    status = serializers.CharField(source="job.status")
    address = serializers.SerializerMethodField()

    class Meta:
        model = AppGuest
        fields = ["job", "app", "owner", "status", "address"]

    def get_address(self, row: AppGuest) -> str:
        return str(self.context["address"](row.job_id, row.app))


class AppTokenSerializer(UtcModelSerializer[AppToken]):
    """`id` is the token's first characters. Usage is as of some seconds ago."""

    id = serializers.CharField(source="key")
    project = serializers.CharField(source="project.slug")
    job = serializers.SerializerMethodField()
    expires_at = UtcDateTimeField()

    class Meta:
        model = AppToken
        fields = [
            *("id", "name", "project", "job", "app", "created_at", "expires_at", "last_used_at"),
            *("requests", "bytes_in", "bytes_out"),
        ]

    def get_job(self, row: AppToken) -> str:
        """Empty for a token that opens apps of all jobs of the project."""
        return f"J-{row.job_id}" if row.job_id else ""


class AppTokenRequestSerializer(serializers.Serializer[Any]):
    """Either a job and its app, or a project."""

    name = serializers.CharField(max_length=64)
    job = serializers.CharField(max_length=32, default="", allow_blank=True)
    app = serializers.CharField(max_length=20, default="", allow_blank=True)
    project = serializers.CharField(max_length=64, default="", allow_blank=True)
    days = serializers.IntegerField(min_value=1, max_value=MAX_TOKEN_TTL.days, default=90)


class NewAppTokenSerializer(AppTokenSerializer):
    """The only response that contains the token itself."""

    token = serializers.SerializerMethodField()

    class Meta(AppTokenSerializer.Meta):
        fields = [*AppTokenSerializer.Meta.fields, "token"]

    def get_token(self, row: AppToken) -> str:
        return str(self.context["token"])
