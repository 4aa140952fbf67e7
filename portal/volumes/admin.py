"""Read-only admin pages of volumes; the console's pages change them."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.volumes.models import Volume


@admin.register(Volume)
class VolumeAdmin(ReadOnlyAdmin):
    list_display = ("name", "root", "subpath", "read_only", "description", "version")
    list_filter = ("root", "read_only")
    search_fields = ("name", "description", "subpath")
