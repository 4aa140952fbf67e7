"""REST views of the prices of devices: everybody reads them, platform admins set them."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.api.prices.serializers import PriceListSerializer, PricesRequestSerializer
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import ETAG, IF_MATCH, if_match_number, stale_version_shown
from portal.api.protocol.views import ApiView
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.prices.price_table import PriceTable
from portal.prices.selectors import current_prices, priced_devices
from portal.prices.services import prices_set


class Prices(ApiView):
    scopes = {"PUT": TokenScope.ADMIN}
    permissions = {"PUT": (IsPlatformAdmin,)}

    @extend_schema(operation_id="prices_show", parameters=[ETAG], responses=PriceListSerializer)
    def get(self, request: ApiRequest) -> Response:
        """What an hour of each kind of device of the cluster costs."""
        return _response(current_prices())

    @extend_schema(
        operation_id="prices_set",
        parameters=[IF_MATCH, ETAG],
        request=PricesRequestSerializer,
        responses=PriceListSerializer,
    )
    def put(self, request: ApiRequest) -> Response:
        """Replace the currency and all prices."""
        version = if_match_number(request)
        body = request.validated_data(PricesRequestSerializer)
        amounts = {(each["board"], each["profile"]): each["amount"] for each in body["prices"]}
        if len(amounts) < len(body["prices"]):
            raise Refused(ErrorCode.PRICE_INVALID, "Give each device one price", "prices")

        def current() -> tuple[Any, int]:
            prices = current_prices()
            return _data(prices), prices.version

        with stale_version_shown(request.data, current):
            prices = prices_set(
                actor=request.caller.username,
                currency=body["currency"],
                amounts=amounts,
                version=version,
            )
        return _response(prices)


def _data(prices: PriceTable) -> Any:
    rows = {"currency": prices.currency, "prices": priced_devices(prices)}
    return PriceListSerializer(rows).data


def _response(prices: PriceTable) -> Response:
    return Response(_data(prices), headers={"ETag": f'"{prices.version}"'})
