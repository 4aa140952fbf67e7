from django.apps import AppConfig


class JobAppsConfig(AppConfig):
    name = "portal.apps"
    label = "job_apps"

    def ready(self) -> None:
        # Registers itself.
        from portal.apps import checks  # noqa: F401, PLC0415
