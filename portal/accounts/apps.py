from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.accounts"
    label = "accounts"

    def ready(self) -> None:
        # Models of other apps are needed, and those stand only now.
        from portal.accounts import sign_in_audit as changes  # noqa: F401, PLC0415
