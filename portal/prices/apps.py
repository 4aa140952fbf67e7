from django.apps import AppConfig


class PricesConfig(AppConfig):
    name = "portal.prices"
    label = "prices"
