"""A small OpenID Connect provider on loopback: discovery, keys, authorization code with PKCE,
tokens, user info. Tests can make any of its answers false."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "tessera", "only-for-tests"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    """What it says. Each field may be changed before somebody signs in."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    """Laid over the ID token's own."""
    told: dict[str, Any] = field(default_factory=dict)
    """Laid over the user info."""
    discovery: dict[str, Any] = field(default_factory=dict)
    key: Any = KEY
    algorithm: str = "RS256"
    refuses: str = ""
    asked: dict[str, dict[str, str]] = field(default_factory=dict)
    """By code: what the authorization was asked with."""

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        } | self.discovery

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent back to, as if the person had signed in at once."""
        back = {"state": query["state"]}
        if self.refuses:
            return f"{query['redirect_uri']}?{urlencode(back | {'error': self.refuses})}"
        code = secrets.token_urlsafe(8)
        self.asked[code] = query
        return f"{query['redirect_uri']}?{urlencode(back | {'code': code})}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.asked.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        right = (
            asked
            and form.get("client_id") == CLIENT_ID
            and form.get("client_secret") == CLIENT_SECRET
            and form.get("redirect_uri") == asked["redirect_uri"]
            and challenge == asked["code_challenge"]
        )
        if not right:
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": self.id_token()}

    def id_token(self) -> str:
        now = int(time.time())
        own = {"iss": self.url, "aud": CLIENT_ID, "sub": self.person["sub"]}
        claims = own | {"iat": now, "exp": now + 300} | self.claims
        key = "a-shared-secret-of-at-least-32-bytes" if self.algorithm == "HS256" else self.key
        if self.algorithm == "none":
            key = None
        return jwt.encode(claims, key, algorithm=self.algorithm, headers={"kid": "one"})

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        return {"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]}


def answering(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(query))
                self.end_headers()
                return
            pages = {
                "/.well-known/openid-configuration": provider.configuration,
                "/keys": provider.keys,
                "/userinfo": lambda: provider.person | provider.told,
            }
            page = pages.get(parts.path)
            self._say(200 if page else 404, page() if page else {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._say(*provider.token(form))

        def _say(self, status: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class Running:
    """`with Running() as provider:` serves it on a free port of loopback."""

    def __enter__(self) -> Provider:
        provider = Provider()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), answering(provider))
        provider.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return provider

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
