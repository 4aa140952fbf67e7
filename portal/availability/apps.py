from django.apps import AppConfig


class AvailabilityConfig(AppConfig):
    name = "portal.availability"
    label = "availability"
