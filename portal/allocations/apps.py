from django.apps import AppConfig


class AllocationsConfig(AppConfig):
    name = "portal.allocations"
    label = "allocations"
