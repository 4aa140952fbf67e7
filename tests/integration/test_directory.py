"""Sign-in by LDAP: a real OpenLDAP on loopback, asked over TLS.

On demand, because the packages are built from source and slapd is no part of a portal:
apt-get install slapd libldap2-dev libsasl2-dev; python3 requirements/install.py ldap.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.platform import platform_from
from portal.settings import sign_in
from tests.support.certificates import pair
from tests.support.rows import a_user

SLAPD = shutil.which("slapd", path="/usr/sbin:/usr/lib/openldap")
PEOPLE = "ou=people,dc=example,dc=org"
CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/authority.pem
TLSCertificateFile {folder}/certificate.pem
TLSCertificateKeyFile {folder}/key.pem
security simple_bind=128
database mdb
suffix "dc=example,dc=org"
rootdn "cn=reader,dc=example,dc=org"
rootpw the-reader's
directory {folder}
access to attrs=userPassword by anonymous auth by * none
access to * by dn="cn=reader,dc=example,dc=org" read by * none
"""
DN = f"uid=olga,{PEOPLE}"
TREE = f"""\
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people
"""


def entry(uid: str, **attributes: str) -> str:
    told = {"cn": uid, "sn": "Ivanova", "userPassword": "right"} | attributes
    lines = "".join(f"{name}: {value}\n" for name, value in told.items())
    return f"dn: uid={uid},{PEOPLE}\nobjectClass: inetOrgPerson\nuid: {uid}\n{lines}"


class Directory:
    """slapd with its own folder, port and certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority = pair("authority.example.org")
        own = pair("127.0.0.1", authority)
        (folder / "authority.pem").write_text(authority.certificate)
        (folder / "key.pem").write_text(own.key)
        (folder / "certificate.pem").write_text(own.certificate)
        (folder / "slapd.conf").write_text(CONFIGURATION.format(folder=folder))
        self._add(TREE, entry("olga", givenName="Olga", mail="olga@example.org"))
        self._add(entry("otto", sn="x" * 200), entry("olé"), entry("ann"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [SLAPD, "-h", f"ldap://127.0.0.1:{self.port}", "-f", folder / "slapd.conf", "-d", "0"]
        )
        end = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None and time.monotonic() < end

    def _add(self, *entries: str) -> None:
        command = [SLAPD, "-T", "add", "-f", self.folder / "slapd.conf"]
        subprocess.run(command, input="\n".join(entries), text=True, check=True)

    def environment(self) -> dict[str, str]:
        """What an operator would set."""
        return {
            "TESSERA_LDAP_URL": f"ldap://127.0.0.1:{self.port}",
            "TESSERA_LDAP_PEOPLE": PEOPLE,
            "TESSERA_LDAP_BIND_DN": "cn=reader,dc=example,dc=org",
            "TESSERA_LDAP_BIND_PASSWORD": "the-reader's",
            "TESSERA_LDAP_CERTIFICATES": str(self.folder / "authority.pem"),
        }

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


needs_ldap = pytest.mark.skipif(
    not (SLAPD and sign_in.find_spec("django_auth_ldap")),
    reason="slapd or django-auth-ldap is not installed: see the top of this file",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    directory = Directory(tmp_path_factory.mktemp("directory"))
    yield directory
    directory.stop()


@pytest.fixture
def configured(settings):
    """Takes what an operator sets into use."""
    cache.clear()

    def use(told: dict[str, str]) -> None:
        for name, value in sign_in.directory_settings(platform_from(told)).items():
            setattr(settings, name, value)
        backend = "portal.web.account.directory.DirectoryBackend"
        settings.AUTHENTICATION_BACKENDS = [*sign_in.AUTHENTICATION_BACKENDS, backend]

    return use


@pytest.fixture
def directory(running, configured):
    configured(running.environment())
    return running


def sign(client, name: str, password: str = "right") -> int:
    return client.post("/sign-in/", {"username": name, "password": password}).status_code


@needs_ldap
@pytest.mark.on_demand
@pytest.mark.django_db
class TestSignInByTheDirectory:
    def test_somebody_of_the_directory_comes_in_and_is_in_no_project(self, client, directory):
        assert sign(client, "Olga") == 302
        user = User.objects.get()
        assert (user.username, user.email, user.get_full_name()) == (
            "olga",
            "olga@example.org",
            "Olga Ivanova",
        )
        assert not user.is_superuser and not user.has_usable_password()
        assert "You are not in a project yet" in client.get("/").content.decode()
        actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
        assert actions == ["user_add", "sign_in"]

    def test_the_second_time_is_the_same_account(self, client, directory):
        sign(client, "olga")
        client.logout()
        assert sign(client, "olga") == 302
        assert User.objects.count() == 1

    @pytest.mark.parametrize(
        ("name", "password"),
        [("olga", "wrong"), ("olga", "")]
        + [(name, "right") for name in ("nobody", "olé", "ol*", "*", "olga)(uid=*", DN)],
    )
    def test_who_is_not_known_or_not_right_stays_out(self, client, directory, name, password):
        assert sign(client, name, password) == 200
        assert not User.objects.exists()

    def test_a_local_account_is_not_taken_over_by_its_name(self, client, directory):
        a_user("ann", is_superuser=True)
        assert sign(client, "ann", "right") == 200
        assert sign(client, "ann", "pw") == 302
        assert User.objects.count() == 1

    def test_a_later_person_of_the_same_name_is_somebody_else(self, client, directory):
        sign(client, "olga")
        User.objects.update(directory_id="another")
        client.logout()
        assert sign(client, "olga") == 200

    def test_an_account_that_is_switched_off_stays_out(self, client, directory):
        sign(client, "olga")
        client.logout()
        User.objects.update(is_active=False)
        sign(client, "olga")
        assert client.get("/account/").status_code == 302

    def test_texts_longer_than_a_column_are_cut(self, client, directory):
        assert sign(client, "otto") == 302
        assert User.objects.get().last_name == "x" * 150

    def test_local_accounts_work_while_the_directory_is_away(self, client, running, configured):
        configured(running.environment() | {"TESSERA_LDAP_URL": "ldap://127.0.0.1:1"})
        a_user("ann")
        assert sign(client, "olga") == 200
        assert sign(client, "ann", "pw") == 302

    def test_a_certificate_of_somebody_else_is_not_trusted(
        self, client, running, configured, tmp_path
    ):
        other = tmp_path / "other.pem"
        other.write_text(pair("127.0.0.1").certificate)
        configured(running.environment() | {"TESSERA_LDAP_CERTIFICATES": str(other)})
        assert sign(client, "olga") == 200


def test_what_is_missing_is_named_when_the_portal_starts(monkeypatch):
    told = {"TESSERA_LDAP_URL": "ldap://ldap.example.org"}
    monkeypatch.setattr(sign_in, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"requirements/ldap\.lock"):
        sign_in.directory_settings(platform_from(told))
    monkeypatch.setattr(sign_in, "find_spec", lambda name: name)
    with pytest.raises(ImproperlyConfigured, match="TESSERA_LDAP_PEOPLE"):
        sign_in.directory_settings(platform_from(told))
