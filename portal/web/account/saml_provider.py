"""The subject of a SAML assertion; an assertion without a lasting one is refused."""

from typing import Any

from allauth.socialaccount.providers.saml.provider import SAMLProvider

PERSISTENT = {
    "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
    "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress",
    "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified",
}
SUBJECT_LENGTH = 191


class SubjectMissing(ValueError):
    """The assertion names no subject that stays the same between sign-ins."""


class SamlProvider(SAMLProvider):
    def extract_uid(self, data: Any) -> str:
        """The subject-id, or else a persistent name identifier. A transient one would create an
        account at every sign-in. Raises SubjectMissing."""
        uid = self._extract(data).get("uid")
        if uid is None and data.get_nameid_format() in PERSISTENT:
            uid = data.get_nameid()
        if not isinstance(uid, str) or not 0 < len(uid) <= SUBJECT_LENGTH or not uid.isprintable():
            raise SubjectMissing
        return uid

    def extract_extra_data(self, data: Any) -> dict[str, Any]:
        """Nothing of the assertion is stored beside the account."""
        return {}
