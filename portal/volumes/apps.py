from django.apps import AppConfig


class VolumesConfig(AppConfig):
    name = "portal.volumes"
    label = "volumes"
