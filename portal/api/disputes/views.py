"""REST views of disputed claims: for platform admins, who decide them."""

from collections.abc import Callable

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.allocations.disputes import disputed_claim_accept, disputed_claim_dismiss
from portal.api.disputes.serializers import DisputedClaimSerializer
from portal.api.protocol.pagination import NamePagination
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import DisputedClaim
from portal.inventory.selectors import disputed_claims


class DisputedClaimList(ApiView, GenericAPIView[DisputedClaim]):
    permissions = {"GET": (IsPlatformAdmin,)}
    pagination_class = NamePagination
    serializer_class = DisputedClaimSerializer
    ordering = ("id",)

    @extend_schema(operation_id="disputed_claim_list", responses=DisputedClaimSerializer(many=True))
    def get(self, request: ApiRequest) -> Response:
        """GPUs that a node reports and another one holds."""
        page = self.paginate_queryset(disputed_claims()) or []
        return self.get_paginated_response(DisputedClaimSerializer(page, many=True).data)


class DisputedClaimAction(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    def decide(self, request: ApiRequest, claim: str, service: Callable[..., object]) -> Response:
        is_id = claim.isdecimal() and len(claim) < 19
        row = disputed_claims().filter(pk=int(claim)).first() if is_id else None
        if row is None:
            raise Refused(ErrorCode.NOT_FOUND, "There is no such claim")
        service(claim=row, actor=request.caller.username)
        return Response(status=status.HTTP_204_NO_CONTENT)


class DisputedClaimAccept(DisputedClaimAction):
    @extend_schema(operation_id="disputed_claim_accept", request=None, responses={204: None})
    def post(self, request: ApiRequest, claim: str) -> Response:
        """Give the GPU to the claimant. No work may be on it."""
        return self.decide(request, claim, disputed_claim_accept)


class DisputedClaimDismiss(DisputedClaimAction):
    @extend_schema(operation_id="disputed_claim_dismiss", request=None, responses={204: None})
    def post(self, request: ApiRequest, claim: str) -> Response:
        """Leave the GPU with the node that holds it."""
        return self.decide(request, claim, disputed_claim_dismiss)
