from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PlanningConfig(AppConfig):
    name = "portal.planning"
    label = "planning"

    def ready(self) -> None:
        # Imported late: models cannot be imported before the apps are loaded.
        from portal.planning.changes import make_triggers  # noqa: PLC0415

        post_migrate.connect(make_triggers, sender=self)
