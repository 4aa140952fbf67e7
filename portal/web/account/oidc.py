"""Sign-in through the organisation's OpenID Connect provider, stricter than allauth's default.

The answer is accepted only if its ID token is signed with the provider's own key (asymmetric
algorithms only), issued by the configured issuer for this portal, and has the same subject as the
user info.
"""

from typing import Any

import jwt
import requests
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from portal.web.account.single_sign_on import open_to_all, redirect_page

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
CLOCKS_APART_SECONDS = 30
CLAIMS = ("preferred_username", "email", "name", "given_name", "family_name")
SUBJECT_LENGTH, LENGTH = 191, 254


def usable_claims(claims: dict[str, Any]) -> dict[str, str]:
    """The claims in CLAIMS, without control characters and no longer than a column."""
    texts = {name: claims[name] for name in CLAIMS if isinstance(claims.get(name), str)}
    plain = {name: "".join(c for c in text if c.isprintable()) for name, text in texts.items()}
    return {name: text for name, text in plain.items() if len(text) <= LENGTH}


class OidcProvider(OpenIDConnectOAuth2Adapter):
    @property
    def openid_config(self) -> dict[str, Any]:
        document = super().openid_config
        if not isinstance(document, dict) or not all(document.get(name) for name in ENDPOINTS):
            raise OAuth2Error("The provider's discovery document is incomplete")
        issuer = str(self.get_provider().app.settings["issuer"])
        if str(document.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
            reported = document.get("issuer")
            raise OAuth2Error(f"The provider reports the issuer {reported!r}, not {issuer!r}")
        return document

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any
    ) -> SocialLogin:
        signed = self._decode_id_token(app, kwargs["response"].get("id_token") or "")
        user_info = self._fetch_user_info(token.token)
        subject = signed.get("sub")
        if not isinstance(user_info, dict) or user_info.get("sub") != subject:
            raise OAuth2Error("The user info has another subject than the ID token")
        if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_LENGTH:
            raise OAuth2Error("The ID token has no usable subject")
        if not subject.isprintable():
            raise OAuth2Error("The ID token has no usable subject")
        data = {"userinfo": usable_claims(user_info) | {"sub": subject}}
        return self.get_provider().sociallogin_from_response(request, data)

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        """The verified claims. Raises OAuth2Error if the signature or a claim is invalid."""
        try:
            header = jwt.get_unverified_header(id_token)
            with get_adapter().get_requests_session() as session:
                answer = session.get(self.openid_config["jwks_uri"])
                answer.raise_for_status()
            keys = jwt.PyJWKSet.from_dict(answer.json()).keys
            candidates = [k for k in keys if k.key_id == header.get("kid")] or (
                keys if len(keys) == 1 and "kid" not in header else []
            )
            if not candidates:
                raise OAuth2Error("The ID token is signed with a key that is not the provider's")
            claims: dict[str, Any] = jwt.decode(
                id_token,
                candidates[0].key,
                algorithms=[a for a in ALGORITHMS if a == header.get("alg")],
                issuer=self.openid_config["issuer"],
                audience=app.client_id,
                leeway=CLOCKS_APART_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise OAuth2Error("The ID token is not valid") from wrong
        return claims


PROVIDER_ERRORS = (requests.RequestException, OAuth2Error, ValueError)


@require_POST
@never_cache
@open_to_all
def start(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Redirect to the provider through a page of the portal."""
    provider = OidcProvider(request, provider_id)
    try:
        # Checks the issuer of the discovery document, which allauth's own view does not.
        _ = provider.openid_config
        answer = OAuth2LoginView.adapter_view(provider)(request)
    except SocialApp.DoesNotExist as unknown:
        raise Http404 from unknown
    except PROVIDER_ERRORS as away:
        return _failed(request, provider, away)
    return redirect_page(request, answer, provider.get_provider().name)


@never_cache
@open_to_all
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Where the provider sends the browser back to."""
    provider = OidcProvider(request, provider_id)
    try:
        answer: HttpResponse = OAuth2CallbackView.adapter_view(provider)(request)
    except SocialApp.DoesNotExist as unknown:
        raise Http404 from unknown
    except PROVIDER_ERRORS as away:
        return _failed(request, provider, away)
    return answer


def _failed(request: HttpRequest, provider: OidcProvider, why: Exception) -> HttpResponse:
    shown: HttpResponse = render_authentication_error(
        request, provider.get_provider(), exception=why
    )
    return shown
