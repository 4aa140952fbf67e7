"""Serializers of API tokens."""

from typing import Any

from rest_framework import serializers

from portal.accounts.models import ApiToken, TokenScope
from portal.accounts.services import MAX_TOKEN_TTL
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer


class TokenSerializer(UtcModelSerializer[ApiToken]):
    """`id` is the token's first characters: enough to tell tokens apart, too few to guess one."""

    id = serializers.CharField(source="token_key")
    created_at = UtcDateTimeField(source="created")
    expires_at = UtcDateTimeField(source="expiry")

    class Meta:
        model = ApiToken
        fields = ["id", "name", "scope", "created_at", "expires_at", "last_used_at"]


class TokenRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)
    scope = serializers.ChoiceField(
        choices=[(str(s), str(s)) for s in TokenScope], default=TokenScope.WRITE
    )
    days = serializers.IntegerField(min_value=1, max_value=MAX_TOKEN_TTL.days, default=90)


class NewTokenSerializer(TokenSerializer):
    """The only response that contains the token itself."""

    token = serializers.SerializerMethodField()

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "token"]

    def get_token(self, row: ApiToken) -> str:
        return str(self.context["token"])
