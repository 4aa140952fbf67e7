"""`manage.py ready_templates`: the templates that a new portal begins with. For the first start."""

from typing import Any

from django.core.management.base import BaseCommand

from portal.catalogue.ready_templates import ready_templates_add
from portal.submission.limits import request_limits


class Command(BaseCommand):
    help = "Save templates of GPU checks, PyTorch, vLLM and Ollama, if there never was a template."

    def handle(self, *args: Any, **options: Any) -> None:
        for row in ready_templates_add(limits=request_limits()):
            self.stdout.write(f"added: {row.name}")
