from django.apps import AppConfig


class LeasesConfig(AppConfig):
    name = "portal.leases"
    label = "duties"
