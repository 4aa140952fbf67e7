"""The advisor's page. A question without a pasted file is an address that can be shared."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.accounts.models import Project
from portal.accounts.selectors import projects_to_work_in
from portal.advice.config_files import ConfigFile, config_files, config_text
from portal.advice.question import InvalidQuestion
from portal.advice.reading import read_question
from portal.advice.selectors import advice_for
from portal.volumes.selectors import usable_volumes
from portal.web.advice.answer import advice_answer
from portal.web.advice.form import (
    DEFAULTS,
    FIELDS,
    MODEL_FIELDS,
    RECOMPUTE_LABELS,
    TASK_LABELS,
    form_values,
    models_by_family,
    question_values,
)
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_choice import chosen_project
from portal.web.wording.messages import message_text
from scheduler.advisor.quantisation import Quantisation


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def advise(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The form, and below it the answer to what it was sent with."""
    values = form_values(request.POST if request.method == "POST" else request.GET)
    if request.method == "POST" and not values["config"]:
        query = {name: text for name, text in values.items() if text}
        return HttpResponseRedirect(f"{reverse('web:advise')}?{urlencode(query)}")
    values["project"] = values["project"] or chosen_project(request)
    is_question = any(values[name] for name in MODEL_FIELDS)
    return _page(request, values, is_question=is_question)


def _page(
    request: AuthenticatedHttpRequest, values: Mapping[str, str], *, is_question: bool
) -> HttpResponse:
    projects = projects_to_work_in(request.user).order_by("slug")
    context: dict[str, Any] = {
        "values": {**DEFAULTS, **{name: text for name, text in values.items() if text}},
        "models": models_by_family(),
        "tasks": TASK_LABELS.items(),
        "recomputes": RECOMPUTE_LABELS.items(),
        "quantisations": list(Quantisation),
        "projects": [project.slug for project in projects],
        "config_files": _config_files(projects, values),
        "volumes": _volumes(projects, values),
        "errors": {},
    }
    if not is_question:
        return render(request, "web/advice.html", context)
    try:
        asked = question_values(values)
        question = read_question(asked, config_text(request.user, asked))
        advice = advice_for(user=request.user, question=question, project=values["project"])
    except InvalidQuestion as invalid:
        found = sorted(invalid.errors.items(), key=lambda error: FIELDS.index(error[0]))
        errors = {_field(name, values): message_text(message) for name, message in found}
        return render(request, "web/advice.html", context | {"errors": errors}, status=400)
    return render(request, "web/advice.html", context | {"answer": advice_answer(advice)})


def _field(name: str, values: Mapping[str, str]) -> str:
    """Of the form: a file that cannot be used was named by its volume and path, or chosen."""
    is_of_volume = name == "config_file" and values["config_volume"]
    return "config_path" if is_of_volume else name


def _volumes(projects: Iterable[Project], values: Mapping[str, str]) -> list[str]:
    """The names of those that jobs of the user may have, and of the one that was chosen."""
    names = [each.name for each in usable_volumes(projects)]
    chosen = values["config_volume"]
    return names if not chosen or chosen in names else [chosen, *names]


def _config_files(projects: Iterable[Project], values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Place and label of each config.json of the project that is chosen, or else the first; and of
    the one that was chosen, wherever it is."""
    found = list(projects)
    chosen = next((each for each in found if each.slug == values["project"]), None)
    project = chosen or next(iter(found), None)
    files = [(file.place, _label(file)) for file in config_files(project)] if project else []
    place = values["config_file"]
    if place and place not in dict(files):
        files.insert(0, (place, place))
    return files


def _label(file: ConfigFile) -> str:
    if not file.job:
        return _("code: %(path)s") % {"path": file.path}
    return f"{file.job}: {file.path}"
