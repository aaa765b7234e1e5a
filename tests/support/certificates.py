"""A certificate authority for tests, and the certificates that it signs, as PEM files."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


class Authority:
    """An authority with ``ca.pem`` in ``folder``. :meth:`sign` writes its files beside it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        made = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.cafile = folder / "ca.pem"
        self.cafile.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(PEM))

    def sign(self, name: str, *, password: str | None = None) -> tuple[Path, Path]:
        """Return the files of a new certificate for ``name``, localhost and 127.0.0.1, and of its key, encrypted with ``password``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = _builder(subject, self._name, key.public_key()).add_extension(
            x509.SubjectAlternativeName(hosts), critical=False
        )
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        certfile, keyfile = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certfile.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(PEM))
        keyfile.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption))
        return certfile, keyfile


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
