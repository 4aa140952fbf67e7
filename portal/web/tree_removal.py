"""The question before the files of a tree are removed, and the answer to it."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.errors import Refused
from portal.files.models import Tree
from portal.files.removal import may_remove, tree_remove
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text


def tree_removal(
    request: AuthenticatedHttpRequest,
    tree: Tree,
    *,
    template: str,
    address: str,
    context: Mapping[str, Any],
) -> HttpResponse:
    """Asks with `template`; removes the tree on POST and goes to `address`, the page with its list.
    Raises Http404 for readers who may not remove it."""
    if not may_remove(request.user, tree):
        raise Http404
    notice, status = "", 200
    if request.method == "POST":
        try:
            tree_remove(tree=tree, actor=request.user)
        except Refused as refused:
            notice, status = refusal_text(refused), refused.status
        else:
            messages.success(request, _("The files are removed"))
            return redirect(address)
    question = {**context, "tree": tree, "notice": notice, "address": address}
    return render(request, template, question, status=status)
