"""Certificates for the servers of tests: self-signed, or signed by a test's own authority."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A key and its certificate, as PEM."""

    key: str
    certificate: str


def pair(host: str, authority: Pair | None = None) -> Pair:
    """Valid for a day for `host`, a name or an IP address; self-signed without an authority."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    issuer, signs = name, key
    if authority:
        issuer = x509.load_pem_x509_certificate(authority.certificate.encode()).subject
        own = serialization.load_pem_private_key(authority.key.encode(), None)
        assert isinstance(own, rsa.RSAPrivateKey)
        signs = own
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(not authority, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_named(host)]), critical=False)
        .sign(signs, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode()
    return Pair(text, certificate.public_bytes(pem).decode())


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
