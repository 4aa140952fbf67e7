"""Seeds what the request page shows: run as a program, prints everybody's password.

alice is a member of vision and bio; vision has templates, one job that ended, and a node with a
whole GPU taken. eve has a project of her own.
"""

import json
import os
import secrets

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.core.management import call_command  # noqa: E402 - after setup

from portal.accounts.models import User  # noqa: E402
from portal.catalogue.services import template_save  # noqa: E402
from scheduler.tasks import plan_once  # noqa: E402
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, settle  # noqa: E402

READY = ("PyTorch", "DeepSpeed", "vLLM", "Ollama", "NCCL test", "Evaluate", "Sweep")


def main() -> None:
    call_command("migrate", verbosity=0)
    password = secrets.token_urlsafe(12)
    alice, eve = (User.objects.create_user(name, password=password) for name in ("alice", "eve"))
    vision, secret = a_project("vision", alice), a_project("secret", eve)
    a_project("bio", alice)
    node = a_node("gpu-01", gpus=2)
    a_node("gpu-02", board="A100-80GB")
    a_job(alice, vision, name="train-vit", device={"gpus": 1, "models": ["H200"]})
    settle(node, rounds=3)
    for name in READY:
        request = a_request(vision, name=name.lower().replace(" ", "-"), device={"mig": "2g.35gb"})
        template_save(
            actor=alice,
            project=vision,
            name=name,
            description=f"{name}, as we run it",
            request=request,
            limits=LIMITS,
        )
    request = a_request(secret)
    template_save(actor=eve, project=secret, name="Zebra", request=request, limits=LIMITS)
    plan_once()
    print(json.dumps({"password": password}))


if __name__ == "__main__":
    main()
