"""What-ifs over REST, for platform admins: ask with POST, then look until it is over."""

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.accounts.rights import require_platform_admin
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.api.what_ifs.serializers import (
    WhatIfRequestSerializer,
    WhatIfSerializer,
    WhatIfSummarySerializer,
)
from portal.what_if.selectors import what_if_visible, what_ifs_of
from portal.what_if.services import what_if_ask, what_if_cancel

MAX_LISTED = 50


class WhatIfList(ApiView):
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="what_if_list", responses=list_response(WhatIfSummarySerializer))
    def get(self, request: ApiRequest) -> Response:
        """The last ones, newest first, without their answers."""
        rows = what_ifs_of(request.caller).defer("outcome")[:MAX_LISTED]
        return Response({"results": WhatIfSummarySerializer(rows, many=True).data})

    @extend_schema(
        operation_id="what_if_ask",
        parameters=[IDEMPOTENCY_KEY],
        request=WhatIfRequestSerializer,
        responses={202: WhatIfSerializer},
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        require_platform_admin(request.caller)
        body = WhatIfRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        row = what_if_ask(user=request.caller, **body.validated_data)
        row.refresh_from_db()
        place = {"Location": reverse("api:what-if", args=[row.pk])}
        return Response(WhatIfSerializer(row).data, status=202, headers=place)


class WhatIfDetail(ApiView):
    @extend_schema(operation_id="what_if_show", responses=WhatIfSerializer)
    def get(self, request: ApiRequest, what_if: str) -> Response:
        return Response(WhatIfSerializer(what_if_visible(request.caller, what_if)).data)


class WhatIfCancel(ApiView):
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="what_if_cancel", request=None, responses=WhatIfSerializer)
    def post(self, request: ApiRequest, what_if: str) -> Response:
        """Nobody works on it any more, within seconds. What is over stays as it is: 409."""
        row = what_if_visible(request.caller, what_if)
        return Response(WhatIfSerializer(what_if_cancel(user=request.caller, row=row)).data)
