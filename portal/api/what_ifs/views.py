"""REST views of what-ifs, for platform admins: start one with POST, then poll until it is done."""

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import list_response
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.api.what_ifs.serializers import (
    WhatIfRequestSerializer,
    WhatIfSerializer,
    WhatIfSummarySerializer,
)
from portal.what_if.selectors import what_if_visible, what_ifs_of
from portal.what_if.services import what_if_cancel, what_if_create

MAX_LISTED = 50


class WhatIfList(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"GET": (IsPlatformAdmin,), "POST": (IsPlatformAdmin,)}

    @extend_schema(operation_id="what_if_list", responses=list_response(WhatIfSummarySerializer))
    def get(self, request: ApiRequest) -> Response:
        """The latest what-ifs, newest first, without their outcomes."""
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
        """Replay recorded days with changes to the cluster or its policy."""
        body = request.validated_data(WhatIfRequestSerializer)
        row = what_if_create(user=request.caller, **body)
        row.refresh_from_db()
        headers = {"Location": reverse("api:what-if", args=[row.pk])}
        return Response(WhatIfSerializer(row).data, status=202, headers=headers)


class WhatIfDetail(ApiView):
    permissions = {"GET": (IsPlatformAdmin,)}

    @extend_schema(operation_id="what_if_show", responses=WhatIfSerializer)
    def get(self, request: ApiRequest, what_if: str) -> Response:
        """One what-if, with its outcome once it is done."""
        return Response(WhatIfSerializer(what_if_visible(request.caller, what_if)).data)


class WhatIfCancel(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    @extend_schema(operation_id="what_if_cancel", request=None, responses=WhatIfSerializer)
    def post(self, request: ApiRequest, what_if: str) -> Response:
        """Stop a what-if within seconds. One that is finished is 409."""
        row = what_if_visible(request.caller, what_if)
        return Response(WhatIfSerializer(what_if_cancel(user=request.caller, row=row)).data)
