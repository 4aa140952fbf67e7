"""The secret key is replaced: what the old one sealed opens, and new secrets need the new one."""

from io import StringIO

import pytest
from allauth.mfa.models import Authenticator
from cryptography.fernet import InvalidToken
from django.core import signing
from django.core.management import CommandError, call_command
from django.test import override_settings

from portal.accounts.models import Role, User
from portal.job_secrets.models import JOB_SECRET_SEAL, JobSecret
from portal.job_secrets.services import secret_set
from portal.key_rotation import services
from portal.registries.models import REGISTRY_SEAL, Registry
from portal.registries.services import registry_set
from portal.web.account.factors import FactorsAdapter
from portal.webhooks.models import Endpoint
from portal.webhooks.secrets import seal, unseal
from tests.support.rows import a_project, a_user

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


def a_webhook() -> Endpoint:
    endpoint = Endpoint(owner=a_user("alice"), name="hook", url="https://example.org/")
    endpoint.sealed = seal("webhook")
    endpoint.save()
    return endpoint


def a_secret_and_a_registry() -> tuple[JobSecret, Registry]:
    ada = a_user("ada")
    home = a_project("vision", ada, role=Role.ADMIN)
    secret = secret_set(actor=ada, project=home, name="HF_TOKEN", value="of a project")
    registry = registry_set(
        actor=ada, project=home, address="ghcr.io", user="robot", password="of a registry"
    )
    return secret, registry


def second_steps(user: User) -> list[Authenticator]:
    encrypt = FactorsAdapter().encrypt
    data = [
        ("totp", {"secret": encrypt("app")}),
        ("recovery_codes", {"seed": encrypt("codes"), "used_mask": 5}),
        ("webauthn", {"name": "key", "credential": {"id": "of a passkey"}}),
    ]
    return [Authenticator.objects.create(user=user, type=kind, data=one) for kind, one in data]


def reseal(*options: str) -> str:
    out = StringIO()
    call_command("reseal_secrets", *options, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_after_resealing_the_old_key_can_go():
    with OLD:
        hook, steps = a_webhook(), second_steps(a_user("bob"))
        secret, registry = a_secret_and_a_registry()
    with ROTATED:
        assert "5 need an earlier key, 1 had" in reseal("--dry-run")
        assert "5 resealed with the present key, 1 had" in reseal()
        assert "0 resealed with the present key, 6 had" in reseal()
    with NEW:
        secret.refresh_from_db(), registry.refresh_from_db()
        assert JOB_SECRET_SEAL.unseal(secret.sealed) == "of a project"
        assert REGISTRY_SEAL.unseal(registry.sealed) == "of a registry"
        hook.refresh_from_db()
        assert unseal(hook.sealed) == "webhook"
        app, codes, passkey = [Authenticator.objects.get(pk=one.pk).data for one in steps]
        assert FactorsAdapter().decrypt(app["secret"]) == "app"
        assert (FactorsAdapter().decrypt(codes["seed"]), codes["used_mask"]) == ("codes", 5)
        assert passkey == steps[2].data


@pytest.mark.django_db
def test_a_dry_run_changes_nothing():
    with OLD:
        hook = a_webhook()
    with ROTATED:
        reseal("--dry-run")
    hook_after = Endpoint.objects.get()
    assert hook_after.sealed == hook.sealed


@pytest.mark.django_db
def test_what_no_key_opens_is_named_and_the_rest_is_resealed():
    with override_settings(SECRET_KEY="forgotten"):
        lost = a_webhook()
    with OLD:
        second_steps(a_user("bob"))
    with ROTATED, pytest.raises(CommandError, match=f"Endpoint {lost.pk}.*FALLBACKS"):
        reseal()
    with NEW:
        app = Authenticator.objects.get(type="totp")
        assert FactorsAdapter().decrypt(app.data["secret"]) == "app"


@pytest.mark.django_db
def test_a_run_that_was_ended_goes_on_where_it_was(monkeypatch):
    with OLD:
        a_webhook()
        second_steps(a_user("bob"))

    def ended(*_: object) -> str:
        raise KeyboardInterrupt

    with ROTATED:
        with monkeypatch.context() as patch:
            patch.setattr(services, "_reseal_value", ended)
            with pytest.raises(KeyboardInterrupt):
                reseal()
        assert "2 resealed with the present key, 2 had" in reseal()
