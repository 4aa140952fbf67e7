"""Passes data to passkeys.js in an attribute, because the CSP allows no inline script."""

import json
from typing import Any

from django import template
from django.core.serializers.json import DjangoJSONEncoder

register = template.Library()


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder)
