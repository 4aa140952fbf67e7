"""The form of a registry's credential. What was typed as a password is never shown again."""

from django import forms
from django.utils.translation import gettext_lazy

from agents.contract.registries import MAX_PASSWORD_BYTES, MAX_REGISTRY_LENGTH, MAX_USER_LENGTH


class RegistrySetForm(forms.Form):
    registry = forms.CharField(
        max_length=MAX_REGISTRY_LENGTH, error_messages={"required": gettext_lazy("Write its host")}
    )
    user = forms.CharField(
        max_length=MAX_USER_LENGTH, error_messages={"required": gettext_lazy("Write a user name")}
    )
    password = forms.CharField(
        max_length=MAX_PASSWORD_BYTES,
        strip=False,
        error_messages={"required": gettext_lazy("Write a password or token")},
    )

    def clean_password(self) -> str:
        """With the line ends of a file: a browser sends those of a form."""
        return str(self.cleaned_data["password"]).replace("\r\n", "\n")
