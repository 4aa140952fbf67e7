"""Read-only admin pages of templates and image policies; the console's pages change them."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.catalogue.models import ImagePolicy, Template


@admin.register(Template)
class TemplateAdmin(ReadOnlyAdmin):
    list_display = ("name", "project", "description", "author", "version", "changed_at")
    list_filter = ("project",)
    search_fields = ("name", "description", "author")
    list_select_related = ("project",)


@admin.register(ImagePolicy)
class ImagePolicyAdmin(ReadOnlyAdmin):
    list_display = ("project", "rule", "patterns", "version")
    list_filter = ("rule",)
    search_fields = ("project__slug",)
    list_select_related = ("project",)
