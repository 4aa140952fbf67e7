"""The agent's identity: an Ed25519 key that never leaves the node, and its node id."""

import base64
import secrets
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from agents.contract.calls import EnrolRequest, HelloRequest, hello_bytes
from agents.contract.protocol import PROTOCOL
from agents.host.machine_ids import boot_id, machine_id

ID_FILE = "node-id"


class AgentIdentity:
    """The key file (mode 0600) and, once enrolled, the node id beside it."""

    def __init__(self, var: Path) -> None:
        self._key_path = var / "key"
        self._id_path = var / ID_FILE
        self._key = self._load()

    @staticmethod
    def is_enrolled(var: Path) -> bool:
        """Whether the folder has the id of a node."""
        return (var / ID_FILE).exists()

    @property
    def node_id(self) -> str:
        """Empty until the agent has enrolled."""
        return self._id_path.read_text("utf-8").strip() if self._id_path.exists() else ""

    def record_enrolment(self, node_id: str) -> None:
        self._id_path.write_text(node_id, "utf-8")

    def enrol_request(self, name: str, join_token: str) -> EnrolRequest:
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return EnrolRequest(
            node=name,
            join_token=join_token,
            public_key=base64.b64encode(public).decode(),
            machine_id=machine_id(),
        )

    def hello_request(self, *, skew_ms: int = 0) -> HelloRequest:
        """A signed hello. `skew_ms`: how far the portal's clock is ahead, as last reported."""
        node_id, boot = self.node_id, boot_id()
        time_ms = time.time_ns() // 1_000_000 + skew_ms
        nonce = secrets.token_urlsafe(24)
        signed = hello_bytes(node_id, boot, time_ms, nonce, PROTOCOL)
        signature = base64.b64encode(self._key.sign(signed)).decode()
        return HelloRequest(node_id, boot, time_ms, nonce, signature)

    def _load(self) -> Ed25519PrivateKey:
        if self._key_path.exists():
            return Ed25519PrivateKey.from_private_bytes(self._key_path.read_bytes())
        key = Ed25519PrivateKey.generate()
        self._key_path.parent.mkdir(parents=True, exist_ok=True)
        self._key_path.touch(mode=0o600)
        raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        self._key_path.write_bytes(raw)
        return key
