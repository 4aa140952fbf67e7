from django.apps import AppConfig


class BackupConfig(AppConfig):
    name = "portal.backup"
    label = "backup"
