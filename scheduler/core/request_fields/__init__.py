"""The fields of a request, in one table for pages, REST and the command line.

The package imports no other code of Tessera, because the command line is installed without it.
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
from scheduler.core.request_fields.words import (
    count_range_words,
    read_count_range,
    volume_words,
)

__all__ = [
    "BY_NAME",
    "FIELDS",
    "SPELLINGS",
    "DefaultRule",
    "FieldGroup",
    "FieldKind",
    "RequestField",
    "count_range_words",
    "read_count_range",
    "top_names",
    "volume_words",
]
