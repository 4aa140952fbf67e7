from django.apps import AppConfig
from django.core.checks import register

from portal.storage.checks import store_check


class StorageConfig(AppConfig):
    name = "portal.storage"

    def ready(self) -> None:
        register(store_check)
