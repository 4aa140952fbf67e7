"""URLs of the console's pages, included in the `web` namespace by portal.web.urls."""

from django.urls import path

from portal.web.console import (
    approvals,
    audit,
    budgets,
    catalogue,
    dashboard,
    disputes,
    held_work,
    limits,
    node_keys,
    nodes,
    projects,
    quotas,
    storage,
)

urlpatterns = [
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<str:ref>/", approvals.approval, name="approval"),
    path("projects/", projects.projects, name="projects"),
    path("projects/<slug:slug>/", projects.project, name="project"),
    path("projects/<slug:slug>/member", projects.member, name="member"),
    path("projects/<slug:slug>/quota", quotas.quota, name="quota"),
    path("projects/<slug:slug>/budget", budgets.add, name="budget"),
    path("projects/<slug:slug>/budget/<int:pk>/remove", budgets.remove, name="budget_remove"),
    path("templates/", catalogue.templates, name="templates"),
    path("templates/new", catalogue.template_new, name="template_new"),
    path("templates/<int:pk>/", catalogue.template_edit, name="template"),
    path("console/", dashboard.console, name="console"),
    path("console/limits/", limits.limits, name="limits"),
    path("console/nodes/", nodes.node_list, name="node_list"),
    path("console/nodes/<str:name>/uncordon", nodes.uncordon, name="uncordon"),
    path("console/nodes/<str:name>/drain", nodes.drain, name="drain"),
    path("console/nodes/<str:name>/revoke", node_keys.revoke, name="revoke"),
    path("console/nodes/<str:name>/held", held_work.held_work, name="held_work"),
    path("console/nodes/<str:name>/unfreeze", node_keys.unfreeze, name="unfreeze"),
    path("console/nodes/<str:name>/preview", nodes.preview, name="preview"),
    path("console/disputes/", disputes.disputes, name="disputes"),
    path("console/disputes/<int:claim>/decide", disputes.dispute, name="dispute"),
    path("console/images/", catalogue.images, name="images"),
    path("console/images/<slug:slug>/", catalogue.image_policy, name="image_policy"),
    path("console/storage/", storage.storage, name="storage"),
    path("console/audit/", audit.audit, name="audit"),
    path("console/audit.csv", audit.audit_csv, name="audit_csv"),
]
