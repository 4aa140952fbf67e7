from django.apps import AppConfig


class RegistriesConfig(AppConfig):
    name = "portal.registries"
    label = "registries"
