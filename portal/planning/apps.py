from django.apps import AppConfig


class PlanningConfig(AppConfig):
    name = "portal.planning"
    label = "planning"
