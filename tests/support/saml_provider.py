"""A small SAML identity provider on loopback: metadata over HTTP, and signed answers.

Tests can make any of its answers false.
"""

from __future__ import annotations

import base64
import threading
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from lxml import etree
from onelogin.saml2.utils import OneLogin_Saml2_Utils as Saml

from tests.support.certificates import Pair, pair

FORMAT = "urn:oasis:names:tc:SAML:2.0:nameid-format:"
UID = "urn:oid:0.9.2342.19200300.100.1.1"
MAIL = "urn:oid:0.9.2342.19200300.100.1.3"
PROTOCOL = "{urn:oasis:names:tc:SAML:2.0:protocol}"
BINDING = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"


OWN, STRANGER = pair("idp.example.org"), pair("idp.example.org")


@dataclass
class Provider:
    """What it says. Each field may be changed before somebody signs in."""

    url: str = ""
    name_id: str = "4711"
    name_format: str = f"{FORMAT}persistent"
    attributes: dict[str, str] = field(default_factory=dict)
    signs_with: Pair | None = OWN
    issuer: str = ""
    audience: str = ""
    recipient: str = ""
    answers: str | None = None
    """Which question is answered; None: the one that was asked, empty: none."""
    age_seconds: int = 0
    status: str = "Success"
    name_markup: str = ""
    """Put into the name as it is, to see who reads only a part of it."""

    @property
    def entity_id(self) -> str:
        return f"{self.url}/metadata"

    def metadata(self) -> str:
        body = "".join(OWN.certificate.split("-----")[2].split())
        return f"""<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata"
 entityID="{self.entity_id}"><IDPSSODescriptor
 protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><KeyDescriptor use="signing">
<KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>{body}
</X509Certificate></X509Data></KeyInfo></KeyDescriptor>
<SingleSignOnService Binding="{BINDING}" Location="{self.url}/sign-on"/>
</IDPSSODescriptor></EntityDescriptor>"""

    def answer_to(self, address: str) -> tuple[str, str]:
        """Where the browser posts what, as if the person had signed in at once."""
        packed = parse_qs(urlsplit(address).query)["SAMLRequest"][0]
        asked = etree.fromstring(zlib.decompress(base64.b64decode(packed), -15))
        assert asked.tag == f"{PROTOCOL}AuthnRequest"
        back = asked.get("AssertionConsumerServiceURL")
        audience = asked.findtext("{*}Issuer")
        return back, self.response(back, audience, asked.get("ID"))

    def response(self, back: str, audience: str, question: str) -> str:
        """The answer, its assertion signed, as base64."""
        answered = question if self.answers is None else self.answers
        told = f'InResponseTo="{answered}"' if answered else ""
        at = datetime.now(UTC) - timedelta(seconds=self.age_seconds)
        now, soon = f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"
        ours = f'xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" IssueInstant="{now}"'
        issuer = f"<saml:Issuer>{self.issuer or self.entity_id}</saml:Issuer>"
        attributes = "".join(
            f'<saml:Attribute Name="{name}"><saml:AttributeValue>{escape(value)}'
            "</saml:AttributeValue></saml:Attribute>"
            for name, value in self.attributes.items()
        )
        assertion = f"""<saml:Assertion {ours} ID="a{answered or 0}" Version="2.0">{issuer}
<saml:Subject><saml:NameID Format="{self.name_format}">{self.name_markup or escape(self.name_id)}
</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer">
<saml:SubjectConfirmationData NotOnOrAfter="{soon}" Recipient="{self.recipient or back}" {told}/>
</saml:SubjectConfirmation></saml:Subject>
<saml:Conditions NotBefore="{now}" NotOnOrAfter="{soon}"><saml:AudienceRestriction>
<saml:Audience>{self.audience or audience}</saml:Audience></saml:AudienceRestriction>
</saml:Conditions><saml:AuthnStatement AuthnInstant="{now}" SessionIndex="s1"><saml:AuthnContext>
<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password
</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>
<saml:AttributeStatement>{attributes}</saml:AttributeStatement></saml:Assertion>"""
        assertion = assertion.replace("\n</saml:NameID>", "</saml:NameID>")
        if not self.attributes:
            assertion = assertion.replace("<saml:AttributeStatement></saml:AttributeStatement>", "")
        if self.signs_with:
            pair = self.signs_with
            assertion = Saml.add_sign(assertion, pair.key, pair.certificate).decode()
        code = f"urn:oasis:names:tc:SAML:2.0:status:{self.status}"
        whole = f"""<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" {ours}
 ID="r{answered or 0}" Version="2.0" Destination="{self.recipient or back}" {told}>{issuer}
<samlp:Status><samlp:StatusCode Value="{code}"/></samlp:Status>{assertion}</samlp:Response>"""
        return base64.b64encode(whole.encode()).decode()


class Running:
    """`with Running() as provider:` serves its metadata on a free port of loopback."""

    def __enter__(self) -> Provider:
        provider = Provider()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = provider.metadata().encode()
                self.send_response(200 if self.path == "/metadata" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        provider.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return provider

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
