from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.accounts"
    label = "accounts"

    def ready(self) -> None:
        # Connects signal receivers and checks, which need the models of other apps.
        from portal import deploy_checks  # noqa: F401, PLC0415
        from portal.accounts import sign_in_audit  # noqa: F401, PLC0415
