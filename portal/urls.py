"""The URL map: pages at the root, REST under /api/v1/, the admin console under /admin/."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path

from portal.error_views import server_error
from portal.health import healthz
from portal.web.account.rate_limits import too_many_requests

# The admin site has no sign-in of its own: rate limits and second factors apply to it as well.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
handler429 = too_many_requests
handler500 = server_error

urlpatterns = [
    path("healthz", healthz),
    path("admin/", admin.site.urls),
    path("api/v1/", include("portal.api.urls")),
    path("", include("portal.web.account.urls")),
    path("", include("portal.web.urls")),
]
