"""Serializers of webhooks."""

from typing import Any

from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.webhooks.chat import ChatFormat
from portal.webhooks.models import MAX_URL, Delivery, Endpoint
from scheduler.core.model.states import JobStatus


class WebhookSerializer(UtcModelSerializer[Endpoint]):
    id = serializers.UUIDField(source="uid")
    owner = serializers.CharField(source="owner.username")
    project = serializers.CharField(
        source="project.slug",
        default=None,
        allow_null=True,
        help_text="sends for all jobs of this project; null: for the owner's own jobs",
    )
    kinds = serializers.ListField(
        child=serializers.CharField(),
        help_text="job statuses to send; empty: all, or for a chat failures and time limits",
    )
    format = serializers.ChoiceField(
        choices=[(str(chat), str(chat)) for chat in ChatFormat],
        help_text="signed: every event as signed JSON; else notices as that chat system takes them",
    )

    off_because = serializers.CharField(source="off_reason", read_only=True)

    class Meta:
        model = Endpoint
        fields = (
            "id",
            "name",
            "url",
            "owner",
            "project",
            "kinds",
            "format",
            "off_because",
            "created_at",
        )


class NewWebhookSerializer(WebhookSerializer):
    """The only response that contains the secret."""

    secret = serializers.SerializerMethodField()

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")  # type: ignore[assignment]

    def get_secret(self, row: Endpoint) -> str:
        return str(self.context["secret"])


class WebhookRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)
    url = serializers.CharField(max_length=MAX_URL, help_text="an https URL at a public address")
    project = serializers.CharField(
        max_length=40,
        required=False,
        default="",
        allow_blank=True,
        help_text="a project that you administer; empty: your own jobs",
    )
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=[(str(s), str(s)) for s in JobStatus]),
        required=False,
        default=list,
        max_length=len(JobStatus),
    )
    format = serializers.ChoiceField(
        choices=[(str(chat), str(chat)) for chat in ChatFormat],
        required=False,
        default=str(ChatFormat.SIGNED),
    )


class DeliverySerializer(UtcModelSerializer[Delivery]):
    body = serializers.CharField(help_text="the exact bytes that are signed and sent")
    answer = serializers.IntegerField(allow_null=True, help_text="HTTP status of the response")

    class Meta:
        model = Delivery
        fields = (
            "id",
            "event",
            "kind",
            "body",
            "status",
            "tries",
            "created_at",
            "next_at",
            "tried_at",
            "answer",
            "problem",
        )
