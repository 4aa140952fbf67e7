"""One's own API tokens over REST. A token can only be managed by one of admin scope."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import ApiToken, Scope
from portal.accounts.selectors import tokens_of
from portal.accounts.services import MAX_TOKEN_TTL, token_create, token_revoke
from portal.api.protocol.authentication import caller
from portal.api.protocol.openapi import listing
from portal.errors import Refused


class TokenShape(serializers.ModelSerializer[ApiToken]):
    """`id` is the token's first characters: enough to tell tokens apart, useless to guess one."""

    id = serializers.CharField(source="token_key")
    created_at = serializers.DateTimeField(source="created")
    expires_at = serializers.DateTimeField(source="expiry")

    class Meta:
        model = ApiToken
        fields = ["id", "name", "scope", "created_at", "expires_at", "last_used_at"]


class TokenBody(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)
    scope = serializers.ChoiceField(choices=[(str(s), str(s)) for s in Scope], default=Scope.WRITE)
    days = serializers.IntegerField(min_value=1, max_value=MAX_TOKEN_TTL.days, default=90)


class NewTokenShape(TokenShape):
    """The only answer that holds the token itself."""

    token = serializers.SerializerMethodField()

    class Meta(TokenShape.Meta):
        fields = [*TokenShape.Meta.fields, "token"]

    def get_token(self, row: ApiToken) -> str:
        return str(self.context["token"])


class TokenList(APIView):
    # A narrow token must not make itself a wider or a longer-lived one.
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="token_list", responses=listing(TokenShape))
    def get(self, request: Request) -> Response:
        return Response({"results": TokenShape(tokens_of(caller(request)), many=True).data})

    @extend_schema(operation_id="token_create", request=TokenBody, responses={201: NewTokenShape})
    def post(self, request: Request) -> Response:
        body = TokenBody(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        row, text = token_create(
            user=caller(request),
            name=asked["name"],
            scope=Scope(asked["scope"]),
            ttl=timedelta(days=asked["days"]),
        )
        shape = NewTokenShape(row, context={"token": text})
        headers = {"Cache-Control": "no-store"}
        return Response(shape.data, status=status.HTTP_201_CREATED, headers=headers)


class TokenOne(APIView):
    scopes = {"DELETE": Scope.ADMIN}

    @extend_schema(operation_id="token_revoke", responses={204: None})
    def delete(self, request: Request, token: str) -> Response:
        row = tokens_of(caller(request)).filter(token_key=token).first()
        if row is None:
            raise Refused("not_found", "You have no such token", "", 404)
        token_revoke(token=row)
        return Response(status=status.HTTP_204_NO_CONTENT)
