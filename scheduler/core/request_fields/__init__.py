"""The table of request fields: what a user may ask for, once, for every way of asking.

It imports nothing else of Tessera, because the command line has it without the rest.
"""

from scheduler.core.request_fields.field import (
    DefaultRule,
    FieldGroup,
    FieldKind,
    RequestField,
)
from scheduler.core.request_fields.table import (
    BY_NAME,
    FIELDS,
    SPELLINGS,
    top_names,
)

__all__ = [
    "BY_NAME",
    "FIELDS",
    "SPELLINGS",
    "DefaultRule",
    "FieldGroup",
    "FieldKind",
    "RequestField",
    "top_names",
]
