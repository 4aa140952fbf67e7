from django.apps import AppConfig


class GangNetworksConfig(AppConfig):
    name = "portal.gang_networks"
    label = "gang_networks"
