"""The secret key is replaced: what the old one sealed opens, and new secrets need the new one."""

import pytest
from cryptography.fernet import InvalidToken
from django.core import signing
from django.test import override_settings

from portal.web.account.factors import FactorsAdapter
from portal.webhooks.secrets import seal, unseal

OLD, NEW = override_settings(SECRET_KEY="old"), override_settings(SECRET_KEY="new")
ROTATED = override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"])


def test_what_the_old_key_sealed_and_signed_goes_on_working():
    with OLD:
        sealed, factor = seal("webhook"), FactorsAdapter().encrypt("factor")
        signed = signing.dumps("link")
    with ROTATED:
        assert unseal(sealed) == "webhook" and FactorsAdapter().decrypt(factor) == "factor"
        assert signing.loads(signed) == "link"
    with NEW, pytest.raises(InvalidToken):
        unseal(sealed)


def test_new_secrets_are_sealed_with_the_new_key():
    with ROTATED:
        sealed = seal("webhook")
    with NEW:
        assert unseal(sealed) == "webhook"
    with OLD, pytest.raises(InvalidToken):
        unseal(sealed)
