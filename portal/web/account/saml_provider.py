"""Who SAML's answer speaks of. allauth reads it; this refuses what is nobody in particular."""

from typing import Any

from allauth.socialaccount.providers.saml.provider import SAMLProvider

PERSISTENT = {
    "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
    "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress",
    "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified",
}
SUBJECT_LENGTH = 191


class SubjectMissing(ValueError):
    """The answer names no person who is the same one the next time."""


class SamlProvider(SAMLProvider):
    def extract_uid(self, data: Any) -> str:
        """The subject-id, else a name identifier that lasts. A transient one would make an account
        at every sign-in. Raises NobodyInParticular."""
        uid = self._extract(data).get("uid")
        if uid is None and data.get_nameid_format() in PERSISTENT:
            uid = data.get_nameid()
        if not isinstance(uid, str) or not 0 < len(uid) <= SUBJECT_LENGTH or not uid.isprintable():
            raise SubjectMissing
        return uid

    def extract_extra_data(self, data: Any) -> dict[str, Any]:
        """Nothing is kept but what became of the account."""
        return {}
