"""REST views of the caller's own API tokens. Managing them takes a token of scope admin."""

from datetime import timedelta

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.accounts.selectors import tokens_of
from portal.accounts.services import token_create, token_revoke
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.api.tokens.serializers import (
    NewTokenSerializer,
    TokenRequestSerializer,
    TokenSerializer,
)
from portal.error_codes import ErrorCode
from portal.errors import Refused


class TokenList(ApiView):
    # A narrow token must not create a wider or longer-lived one.
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="token_list", responses=list_response(TokenSerializer))
    def get(self, request: ApiRequest) -> Response:
        """Your tokens, newest first."""
        return Response({"results": TokenSerializer(tokens_of(request.caller), many=True).data})

    @extend_schema(
        operation_id="token_create",
        request=TokenRequestSerializer,
        responses={201: NewTokenSerializer},
    )
    def post(self, request: ApiRequest) -> Response:
        """Create a token for yourself. The response shows it, this once."""
        body = request.validated_data(TokenRequestSerializer)
        row, text = token_create(
            user=request.caller,
            name=body["name"],
            scope=TokenScope(body["scope"]),
            ttl=timedelta(days=body["days"]),
        )
        data = NewTokenSerializer(row, context={"token": text}).data
        headers = {"Cache-Control": "no-store"}
        return Response(data, status=status.HTTP_201_CREATED, headers=headers)


class TokenDetail(ApiView):
    scopes = {"DELETE": TokenScope.ADMIN}

    @extend_schema(operation_id="token_revoke", responses={204: None})
    def delete(self, request: ApiRequest, token: str) -> Response:
        """Revoke one of your tokens."""
        row = tokens_of(request.caller).filter(token_key=token).first()
        if row is None:
            raise Refused(ErrorCode.NOT_FOUND, "You have no such token")
        token_revoke(token=row)
        return Response(status=status.HTTP_204_NO_CONTENT)
