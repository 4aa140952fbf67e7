"""A new portal has templates that can be submitted as they are, and a person's decision stays."""

import ast

import pytest
from django.test import Client
from django.urls import reverse

from portal.catalogue.models import Template
from portal.catalogue.ready_templates import READY_TEMPLATES, ready_templates_add
from portal.catalogue.services import template_delete
from portal.demo.templates import add_demo_templates
from scheduler.core.request import RequestLimits, parse_request
from tests.support.rows import LIMITS, a_project, a_user

pytestmark = pytest.mark.django_db


def test_every_ready_template_is_a_request_that_can_be_submitted():
    added = ready_templates_add(limits=LIMITS)
    assert [row.name for row in added] == [ready.name for ready in READY_TEMPLATES]
    for row in added:
        request = parse_request(row.request | {"project": "vision"}, LIMITS)
        assert request.command and row.author == "system" and row.project is None


def test_its_python_programs_are_python_in_one_line():
    for ready in READY_TEMPLATES:
        program, *rest = ready.request["command"]
        assert "\n" not in "".join(rest), ready.name
        if program.startswith("python"):
            ast.parse(rest[1])


def test_they_come_once_and_a_person_who_deletes_them_has_decided():
    ready_templates_add(limits=LIMITS)
    assert ready_templates_add(limits=LIMITS) == []
    root = a_user("root", is_superuser=True)
    for row in Template.objects.all():
        template_delete(template=row, actor=root)
    assert ready_templates_add(limits=LIMITS) == []
    assert not Template.objects.exists()


def test_an_image_that_the_platform_does_not_allow_is_left_out():
    added = ready_templates_add(limits=RequestLimits(image_allow=("pytorch/*",)))
    assert {row.request["image"].split(":")[0] for row in added} == {"pytorch/pytorch"}


@pytest.mark.parametrize("runtime", ["docker", "process"])
def test_the_demonstration_has_its_own_on_the_pages_of_request_and_templates(runtime):
    add_demo_templates(runtime)
    alice = a_user("alice")
    a_project("vision", alice)
    client = Client()
    client.force_login(alice)
    for page in (reverse("web:request"), reverse("web:templates")):
        text = client.get(page).content.decode()
        for row in Template.objects.all():
            assert row.name in text, page
    assert Template.objects.count() == 4
