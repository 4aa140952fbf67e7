"""Sign-in by OpenID Connect, SAML and LDAP: docs/accounts.md."""

from dataclasses import dataclass

from agents.configuration.declaration import Secrecy, setting
from agents.configuration.value_kinds import url
from portal.platform.readers import WEB


@dataclass(frozen=True)
class SignInSettings:
    oidc_issuer: str = setting(
        "",
        "Issuer URL of the OpenID Connect provider, exactly as it is published. Empty: none.",
        kind=url("https", "http"),
        readers=WEB,
    )
    oidc_client_id: str = setting("", "The portal's id at the provider.", readers=WEB)
    oidc_client_secret: str = setting(
        "", "The secret of that id.", secrecy=Secrecy.WHOLE, readers=WEB
    )
    oidc_name: str = setting(
        "your organisation", 'The name on the button, after "Sign in with".', readers=WEB
    )
    saml_metadata_url: str = setting(
        "",
        "URL of the SAML identity provider's metadata. Empty: no sign-in by SAML.",
        kind=url("https", "http"),
        readers=WEB,
    )
    saml_entity_id: str = setting("", "The identity provider's entity id.", readers=WEB)
    saml_name: str = setting("your organisation", "As TESSERA_OIDC_NAME.", readers=WEB)
    saml_username: str = setting(
        "urn:oid:0.9.2342.19200300.100.1.1",
        "The attribute with the suggested user name. The default is `uid`.",
        readers=WEB,
    )
    ldap_url: str = setting(
        "",
        "The directory: `ldap://` (with StartTLS) or `ldaps://`. Empty: no sign-in by LDAP.",
        kind=url("ldap", "ldaps"),
        readers=WEB,
    )
    ldap_people: str = setting(
        "", "The search base of people, such as `ou=people,dc=example,dc=org`.", readers=WEB
    )
    ldap_filter: str = setting("(uid=%(user)s)", "Finds a person by user name.", readers=WEB)
    ldap_id: str = setting(
        "entryUUID",
        "The attribute with a person's permanent id; `objectGUID` in Active Directory.",
        readers=WEB,
    )
    ldap_bind_dn: str = setting(
        "", "The account that searches the directory. Empty: anonymous.", readers=WEB
    )
    ldap_bind_password: str = setting("", "Its password.", secrecy=Secrecy.WHOLE, readers=WEB)
    ldap_certificates: str = setting(
        "",
        "A file with the certificate authorities for the directory. Empty: those of the system.",
        readers=WEB,
    )
