"""Sign-in through the organisation's SAML identity provider. Needs requirements/saml.lock.

An assertion is accepted only if the configured provider signed it, for this portal, in answer to
this browser's request, and recently. There is no single sign-out.
"""

from typing import Any
from urllib.error import URLError
from xml.etree.ElementTree import ParseError

from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.providers.saml import views
from allauth.socialaccount.providers.saml.utils import build_saml_config, get_app_or_404
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from lxml.etree import LxmlError
from onelogin.saml2.errors import OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError
from onelogin.saml2.settings import OneLogin_Saml2_Settings

from portal.web.account.saml_provider import SubjectMissing
from portal.web.account.single_sign_on import open_to_all, redirect_page

PROVIDER_ERRORS = (
    URLError,
    OSError,
    KeyError,
    ParseError,
    LxmlError,
    OneLogin_Saml2_Error,
    OneLogin_Saml2_ValidationError,
)
# Raised by allauth if the state was not this browser's or the answer names no subject.
REFUSALS = (PermissionDenied, SubjectMissing)


@require_POST
@never_cache
@open_to_all
def start(request: HttpRequest, organization_slug: str) -> HttpResponse:
    """Redirect to the provider through a page of the portal."""
    provider = _provider(request, organization_slug)
    try:
        answer = provider.redirect_from_request(request)
    except PROVIDER_ERRORS as away:
        return _failed(request, provider, away)
    return redirect_page(request, answer, provider.name)


@csrf_exempt
@never_cache
@open_to_all
def assertion_posted(request: HttpRequest, organization_slug: str) -> HttpResponse:
    """Receive the assertion that the provider's page posts.

    The post comes from another site and so without the session cookie: the assertion is stored and
    read by `finish`.
    """
    _provider(request, organization_slug)
    answer: HttpResponse = views.acs(request, organization_slug=organization_slug)
    return answer


@never_cache
@open_to_all
def finish(request: HttpRequest, organization_slug: str) -> HttpResponse:
    """Read the stored assertion, now with the browser's session."""
    provider = _provider(request, organization_slug)
    try:
        answer: HttpResponse = views.finish_acs(request, organization_slug=organization_slug)
    except (*PROVIDER_ERRORS, *REFUSALS) as wrong:
        return _failed(request, provider, wrong)
    return answer


@require_GET
@open_to_all
def metadata(request: HttpRequest, organization_slug: str) -> HttpResponse:
    """The portal's service provider metadata, as XML."""
    provider = _provider(request, organization_slug)
    config = build_saml_config(request, provider.app.settings, organization_slug)
    del config["sp"]["singleLogoutService"]
    settings = OneLogin_Saml2_Settings(settings=config, sp_validation_only=True)
    return HttpResponse(settings.get_sp_metadata(), content_type="application/samlmetadata+xml")


def no_sign_out(request: HttpRequest, organization_slug: str) -> HttpResponse:
    """Answer 404: allauth needs a URL for single sign-out, which is not offered."""
    raise Http404


def _provider(request: HttpRequest, organization_slug: str) -> Any:
    return get_app_or_404(request, organization_slug).get_provider(request)


def _failed(request: HttpRequest, provider: Any, why: Exception) -> HttpResponse:
    shown: HttpResponse = render_authentication_error(request, provider, exception=why)
    return shown
