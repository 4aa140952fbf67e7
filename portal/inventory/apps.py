from django.apps import AppConfig
from django.db.models.signals import post_migrate


class InventoryConfig(AppConfig):
    name = "portal.inventory"
    label = "inventory"

    def ready(self) -> None:
        # Imported late: models cannot be imported before the apps are loaded.
        from portal.inventory.version import make_triggers  # noqa: PLC0415

        post_migrate.connect(make_triggers, sender=self)
