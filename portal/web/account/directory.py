"""Sign-in with a password of the organisation's LDAP directory. Needs requirements/ldap.lock.

Accounts are matched by the directory's own identifier, never by name: a directory user cannot take
over a local account of the same name, nor the account of somebody who had the name before.
"""

from typing import Any

from django.contrib.auth.validators import ASCIIUsernameValidator
from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import receiver
from django_auth_ldap.backend import LDAPBackend, populate_user

from portal.accounts.models import User
from portal.accounts.profiles import user_audit
from portal.audit.codes import AuditAction

LENGTHS = {"first_name": 150, "last_name": 150, "email": 254}


class DirectoryBackend(LDAPBackend):
    # Read as AUTH_LDAP_IDENTIFIER.
    default_settings = {"IDENTIFIER": "entryUUID"}

    def get_or_build_user(self, username: str, ldap_user: Any) -> tuple[User, bool]:
        """The account of this directory user, or a new one in no project.

        Raises the backend's AuthenticationFailed if the directory gives no identifier, or the name
        is not a valid user name or belongs to another account.
        """
        attribute = self.settings.IDENTIFIER
        identifier = _as_text((ldap_user.attrs or {}).get(attribute) or [""])
        if not identifier:
            raise ldap_user.AuthenticationFailed(f"it has no {attribute}")
        if known := User.objects.filter(directory_id=identifier).first():
            return known, False
        try:
            ASCIIUsernameValidator()(username)
        except ValidationError as wrong:
            raise ldap_user.AuthenticationFailed("its name is not a user name") from wrong
        if User.objects.filter(username__iexact=username).exists():
            raise ldap_user.AuthenticationFailed("another account has this name")
        return _create(User(username=username.lower(), directory_id=identifier)), True


def _create(user: User) -> User:
    with transaction.atomic():
        user.set_unusable_password()
        user.save()
        user_audit(user, AuditAction.USER_ADD, after={"by": "ldap", "projects": 0})
    return user


@receiver(populate_user)
def trim_profile(user: User, **_: Any) -> None:
    """Drop control characters from the directory's texts and cut them to the columns."""
    for name, length in LENGTHS.items():
        plain = "".join(c for c in str(getattr(user, name)) if c.isprintable())
        setattr(user, name, plain[:length])


def _as_text(values: list[Any]) -> str:
    """The first value; Active Directory's identifiers are 16 bytes, shown as hex."""
    return values[0].hex() if isinstance(values[0], bytes) else str(values[0])
