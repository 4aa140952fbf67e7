"""Second factors and passkeys: allauth's adapter and forms, made stricter."""

import base64
import secrets
from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn import forms
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.sealing import Seal

NAME_LENGTH = 64
# Raised by the parsers of a browser's answer if it was written by hand.
MALFORMED = (TypeError, ValueError, KeyError, AttributeError, IndexError)


class FactorsAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": _("Incorrect code. Codes change every 30 s: enter the latest one"),
        "rate_limited": _("Too many failed attempts. Try again in 5 min"),
    }

    def validation_error(self, code: str) -> ValidationError:
        if code == "incorrect_code":
            security_event_record(AuditAction.SECOND_STEP_REFUSED, noun="user")
        error: ValidationError = super().validation_error(code)
        return error

    def encrypt(self, text: str) -> str:
        """Encrypted, so that a copy of the database alone cannot produce codes."""
        return FACTOR_SEAL.seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Once the portal's secret has been replaced, no stored secret can be read. The stand-in
        must be as hard to guess as the original, so that no code is accepted."""
        try:
            return FACTOR_SEAL.unseal(encrypted_text)
        except InvalidToken:
            return base64.b32encode(secrets.token_bytes(20)).decode()

    def get_totp_label(self, user: User) -> str:
        return str(user.username)

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        number = Authenticator.objects.filter(user_id=user.pk, type=type).count() + 1
        return gettext("Passkey %(number)s") % {"number": number}

    def _get_site_name(self) -> str:
        return "Tessera"


def _key(secret: str) -> bytes:
    derive = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"tessera second steps")
    return base64.urlsafe_b64encode(derive.derive(secret.encode()))


FACTOR_SEAL = Seal(_key)


class _Careful:
    """Turns malformed input of any shape into a form error."""

    def clean_credential(self) -> Any:
        try:
            return super().clean_credential()  # type: ignore[misc]  # of the form beside it
        except MALFORMED as wrong:
            raise FactorsAdapter().validation_error("incorrect_code") from wrong


class SignInByPasskey(_Careful, forms.LoginWebAuthnForm):
    pass


class SecondStepByPasskey(_Careful, forms.AuthenticateWebAuthnForm):
    pass


class ConfirmByPasskey(_Careful, forms.ReauthenticateWebAuthnForm):
    pass


class AddPasskey(forms.AddWebAuthnForm):
    def clean_name(self) -> str:
        return "".join(c for c in super().clean_name() if c.isprintable())[:NAME_LENGTH]

    def clean(self) -> dict[str, Any]:
        try:
            return dict(super().clean())
        except MALFORMED as wrong:
            raise FactorsAdapter().validation_error("incorrect_code") from wrong
