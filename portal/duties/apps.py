from django.apps import AppConfig


class DutiesConfig(AppConfig):
    name = "portal.duties"
    label = "duties"
