from django.apps import AppConfig


class IdleConfig(AppConfig):
    name = "portal.idle"
    label = "idle"
