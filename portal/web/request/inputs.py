"""The inputs of the request form, made from the table of request fields."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _

from portal.web.request.choices import choice_labels
from portal.web.request.form import FilledForm
from portal.web.request.form_fields import AMOUNT_KINDS
from scheduler.core.request import RequestLimits
from scheduler.core.request.quantities import write_seconds
from scheduler.core.request_fields import FIELDS, DefaultRule, FieldGroup, FieldKind, RequestField

# Fields that stand elsewhere on the page than in its advanced part. The cards are `amount`.
PLACED = frozenset(
    (
        *("project", "name", "image", "command", "code", "amount", "replicas", "gpus"),
        *("threads", "device_memory", "isolation", "time_limit", "models"),
    )
)
ADVANCED = tuple(field for field in FIELDS if field.form_name not in PLACED)
GROUPS = (
    FieldGroup.RESOURCES,
    FieldGroup.WHERE,
    FieldGroup.DEVICE,
    FieldGroup.WHEN,
    FieldGroup.WHAT,
)


@dataclass(frozen=True, slots=True)
class FormInput:
    """One input with its label, help and error."""

    name: str
    label: str
    help: str
    value: str
    error: str
    meant: str
    """What was probably meant, where there is an error."""
    reading: str
    """How the value was read, where it leaves something open."""
    is_read: bool
    """Whether its kind has readings."""
    choices: list[tuple[str, str | Promise]]
    is_number: bool
    is_long: bool


def advanced_inputs(form: FilledForm, limits: RequestLimits) -> list[FormInput]:
    """Those of the advanced part, by group."""
    ordered = [field for group in GROUPS for field in ADVANCED if field.group is group]
    return form_inputs(ordered, form, limits)


def form_inputs(
    fields: Iterable[RequestField], form: FilledForm, limits: RequestLimits
) -> list[FormInput]:
    return [_form_input(field, form, limits) for field in fields]


def _form_input(field: RequestField, form: FilledForm, limits: RequestLimits) -> FormInput:
    name, choices = field.form_name, choice_labels(field)
    return FormInput(
        name=name,
        label=_(field.label),
        help=_(field.help) if choices else input_help(field, limits),
        value=form.values.get(name, ""),
        error=form.errors.get(name, ""),
        meant=form.mends.get(name, ""),
        reading=form.readings.get(name, ""),
        is_read=field.kind in AMOUNT_KINDS,
        choices=choices,
        is_number=field.kind is FieldKind.COUNT,
        is_long=field.kind in (FieldKind.VARIABLES, FieldKind.VOLUMES),
    )


def input_help(field: RequestField, limits: RequestLimits) -> str:
    """Its help, and what it is if it is left empty."""
    default = _(field.default_help) if field.default_help else ""
    if field.default is DefaultRule.POLICY:
        default = write_seconds(limits.default_time_limit_seconds)
    if not default:
        return _(field.help)
    return _("%(help)s Empty: %(default)s.") % {"help": _(field.help), "default": default}
