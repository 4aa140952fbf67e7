"""Quick starts: one click opens the request form filled in.

Those for users without jobs run wherever a slice can be allocated, and need nothing of their image
but `sh`. Those of notebooks are there for everybody, where the portal serves apps.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from agents.contract.image_reference import is_image_allowed
from portal.web.request.form import DEFAULTS, WHOLE_GPUS


@dataclass(frozen=True, slots=True)
class QuickStart:
    """One entry of the list."""

    key: str
    title: str | Promise
    description: str | Promise
    values: Mapping[str, str]
    """Values of the form that differ from its defaults."""


QUICK_STARTS = (
    QuickStart(
        "slice",
        gettext_lazy("A slice, to try it out"),
        gettext_lazy("A small part of a GPU for half an hour. It prints which one it got."),
        {"time_limit": "30m"},
    ),
    QuickStart(
        "gpu",
        gettext_lazy("A whole GPU"),
        gettext_lazy("One GPU to yourself. Enter your own image and command."),
        {"name": "whole-gpu", "amount": WHOLE_GPUS, "gpus": "1"},
    ),
    QuickStart(
        "together",
        gettext_lazy("Two replicas that start together"),
        gettext_lazy(
            "A gang of two, as for distributed training. Each prints the address where they meet."
        ),
        {
            "name": "together",
            "time_limit": "30m",
            "replicas": "2",
            "topology": "any",
            "command": "sh -c 'echo \"rank $RANK of $WORLD_SIZE meets at "
            "$MASTER_ADDR:$MASTER_PORT\"; sleep 20; echo done'",
        },
    ),
)

# The images are those that the projects themselves publish. That of RStudio, the Rocker project's,
# has JupyterLab as well, which starts RStudio Server behind itself (jupyter-rsession-proxy).
NOTEBOOK_STARTS = (
    QuickStart(
        "jupyterlab",
        "JupyterLab",
        gettext_lazy("Notebooks, terminals and files in the browser, with PyTorch."),
        {
            "name": "jupyterlab",
            "kind": "notebook",
            "launcher": "jupyter",
            "image": "quay.io/jupyter/pytorch-notebook:cuda12-latest",
            "command": "jupyter lab",
        },
    ),
    QuickStart(
        "vscode",
        "VS Code",
        gettext_lazy("The editor in the browser, by code-server, with a terminal on the GPU."),
        {
            "name": "vscode",
            "kind": "notebook",
            "launcher": "code-server",
            "image": "codercom/code-server:4.138.0",
            "command": "code-server .",
        },
    ),
    QuickStart(
        "rstudio",
        "RStudio",
        gettext_lazy("RStudio Server in the browser, with the tidyverse."),
        {
            "name": "rstudio",
            "kind": "notebook",
            "launcher": "jupyter",
            "image": "rocker/binder:4.5.1",
            "command": "jupyter lab --LabApp.default_url=/rstudio",
        },
    ),
)


def quick_starts(image_allow: str) -> tuple[QuickStart, ...]:
    """Empty if `image_allow`, comma-separated patterns, does not match their image."""
    return QUICK_STARTS if is_image_allowed(DEFAULTS["image"], _patterns(image_allow)) else ()


def notebook_starts(image_allow: str, apps_domain: str) -> tuple[QuickStart, ...]:
    """Those whose image matches; none where no notebook could be opened, without a domain."""
    if not apps_domain:
        return ()
    patterns = _patterns(image_allow)
    return tuple(
        start for start in NOTEBOOK_STARTS if is_image_allowed(start.values["image"], patterns)
    )


def quick_start_values(key: str) -> Mapping[str, str] | None:
    """Values for a new form; None for an unknown key."""
    starts = (*QUICK_STARTS, *NOTEBOOK_STARTS)
    return next((start.values for start in starts if start.key == key), None)


def _patterns(image_allow: str) -> list[str]:
    return [word.strip() for word in image_allow.split(",") if word.strip()]
