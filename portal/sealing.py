"""Secrets sealed for the database: a copy of it alone reveals none of them."""

from collections.abc import Callable
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals with TESSERA_SECRET_KEY, and also opens what an earlier key sealed."""

    derive: Callable[[str], bytes]
    """Fernet's key for a secret key; one of its own for each use."""

    def seal(self, secret: str) -> str:
        return self._cipher().encrypt(secret.encode()).decode()

    def unseal(self, sealed: str) -> str:
        """Raises cryptography.fernet.InvalidToken if the key that sealed it is not here."""
        return self._cipher().decrypt(sealed.encode()).decode()

    def reseal(self, sealed: str) -> str:
        """The same secret under the present key; unchanged if it is that already. Raises
        InvalidToken."""
        try:
            Fernet(self.derive(settings.SECRET_KEY)).decrypt(sealed.encode())
        except InvalidToken:
            return self._cipher().rotate(sealed.encode()).decode()
        return sealed

    def _cipher(self) -> MultiFernet:
        keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
        return MultiFernet([Fernet(self.derive(key)) for key in keys])
