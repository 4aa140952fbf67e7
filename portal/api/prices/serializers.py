"""Serializers of the prices of devices."""

from typing import Any

from rest_framework import serializers

from portal.prices.models import MAX_CURRENCY
from portal.prices.selectors import PricedDevice
from portal.prices.services import plain_amount

# More than devices of any cluster.
MAX_PRICES = 1_000
MAX_NAME = 128


class PriceSerializer(serializers.Serializer[Any]):
    """What an hour of a kind of device costs."""

    board = serializers.CharField(help_text='such as "H200-141GB"')
    profile = serializers.CharField(allow_blank=True, help_text="of a MIG slice; else empty")
    amount = serializers.CharField(
        allow_null=True, help_text="for an hour, as a decimal number; null where none is set"
    )
    price_source = serializers.CharField(
        allow_blank=True,
        help_text="admin: set for this device; share: the slice's share of its GPU's price",
    )

    def to_representation(self, device: PricedDevice) -> dict[str, Any]:
        board, profile = device.key
        price = device.price
        return {
            "board": board,
            "profile": profile,
            "amount": plain_amount(price.amount) if price else None,
            "price_source": str(price.source) if price else "",
        }


class PriceListSerializer(serializers.Serializer[Any]):
    """All prices: of every kind of device of the cluster."""

    currency = serializers.CharField(allow_blank=True)
    prices = PriceSerializer(many=True)


class PriceRequestSerializer(serializers.Serializer[Any]):
    """One price."""

    board = serializers.CharField(max_length=MAX_NAME)
    profile = serializers.CharField(max_length=32, required=False, allow_blank=True, default="")
    amount = serializers.DecimalField(
        max_digits=13, decimal_places=6, min_value=0, max_value=1_000_000, help_text="for an hour"
    )


class PricesRequestSerializer(serializers.Serializer[Any]):
    """Every price that is to be set; what is left out has none. Slices without one have their
    share of their GPU's."""

    currency = serializers.CharField(
        max_length=MAX_CURRENCY, allow_blank=True, help_text='such as "EUR"'
    )
    prices = serializers.ListField(child=PriceRequestSerializer(), max_length=MAX_PRICES)
