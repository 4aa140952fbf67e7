"""The URL map: pages at the root, REST under /api/v1/, the admin console under /admin/."""

from django.contrib import admin
from django.urls import include, path

from portal.health import healthz

urlpatterns = [
    path("healthz", healthz),
    path("admin/", admin.site.urls),
    path("api/v1/", include("portal.api.urls")),
    path("", include("portal.web.urls")),
]
