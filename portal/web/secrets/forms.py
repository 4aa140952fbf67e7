"""The form of a secret. What was typed as a value is never shown again."""

from django import forms
from django.utils.translation import gettext_lazy

from agents.contract.job_secrets import MAX_SECRET_BYTES
from portal.job_secrets.models import MAX_NAME


class SecretSetForm(forms.Form):
    name = forms.CharField(
        max_length=MAX_NAME, error_messages={"required": gettext_lazy("Write a name")}
    )
    value = forms.CharField(
        max_length=MAX_SECRET_BYTES,
        strip=False,
        error_messages={"required": gettext_lazy("Write its value")},
    )

    def clean_value(self) -> str:
        """With the line ends of a file: a browser sends those of a form."""
        return str(self.cleaned_data["value"]).replace("\r\n", "\n")
