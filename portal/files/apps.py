from django.apps import AppConfig
from django.core.checks import register

from portal.files.uploads.checks import spool_check


class FilesConfig(AppConfig):
    name = "portal.files"

    def ready(self) -> None:
        register(spool_check, deploy=True)
