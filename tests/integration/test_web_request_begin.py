"""What the request form begins with: a template, a job to clone; and saving it as a template."""

import re

import pytest

from portal.accounts.models import Membership
from portal.catalogue.models import ImagePolicy, ImageRule, Template
from portal.catalogue.services import template_save
from portal.jobs.models import Job
from tests.support.request_form import a_form
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db(transaction=True)
TYPED = {"template_name": "Nightly", "template_description": "every night"}


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    a_node("n1")
    return a_project("vision", olga)


@pytest.fixture
def bio(olga):
    return a_project("bio", olga)


def a_template(by, project, name="Train", description="", **fields) -> Template:
    request = a_request(project or a_project(), **fields)
    return template_save(
        actor=by,
        project=project,
        name=name,
        description=description,
        request=request,
        limits=LIMITS,
    )


def page(client, **query) -> str:
    answer = client.get("/request/", query)
    assert answer.status_code == 200
    return answer.content.decode()


def picked(text: str) -> list[str]:
    """The titles that the picker offers, in order."""
    return re.findall(r"data-begin[^>]*><b>(.*?)</b>", text)


def chosen(text: str) -> str:
    return re.search(r'<option value="([^"]*)" selected>\1</option>', text)[1]


def error_of(text: str, field: str) -> str:
    found = re.search(rf'id="{field}-error".*?<span>(.*?)</span>', text, re.DOTALL)
    return found[1] if found else ""


def test_a_template_fills_in_the_form_and_the_project_stays(client, olga, team, bio):
    row = a_template(olga, team, image="registry/pytorch:2", env={"LR": "1"}, replicas=3)
    text = page(client, template=row.pk, project="vision")
    assert 'value="registry/pytorch:2"' in text
    assert "LR=1</textarea>" in text
    assert 'inputmode="numeric" value="3"' in text
    assert chosen(text) == "vision"
    assert "Filled in from the template Train" in text
    assert chosen(page(client, template=row.pk, project="bio")) == "bio"
    assert not Job.objects.exists()


def test_those_of_the_project_come_first_then_those_of_everybody(client, olga, team, bio):
    root = a_user("root", is_superuser=True)
    a_template(olga, bio, "Of bio")
    a_template(olga, team, "Of vision", "with care")
    a_template(root, None, "Of all")
    eve = a_user("eve")
    a_template(eve, a_project("secret", eve), "Theirs")
    text = page(client, project="vision")
    assert picked(text)[:3] == ["Of vision", "Of all", "Of bio"]
    assert "with care" in text
    assert "Theirs" not in text
    assert picked(page(client, project="bio"))[0] == "Of bio"


def test_without_templates_the_ready_starts_are_offered(client, team):
    assert "A whole GPU" in picked(page(client))


def test_many_templates_are_found_by_name(client, olga, team):
    for number in range(8):
        a_template(olga, team, f"Train {number}")
    a_template(olga, team, "Serve it")
    assert len(picked(page(client))) == 6
    assert "There are more: search by name." in page(client)
    assert picked(page(client, find="sERVE")) == ["Serve it"]
    found = client.get("/request/templates", {"find": "serve", "project": "vision"})
    assert picked(found.content.decode()) == ["Serve it"]
    assert "No template name contains “&lt;b&gt;”" in page(client, find="<b>")


@pytest.mark.parametrize("ref", ["999999", "x", "9" * 40, "-1", "theirs"])
def test_a_template_that_is_not_there_is_told_and_the_form_stays(client, olga, team, ref):
    if ref == "theirs":
        eve = a_user("eve")
        foreign = a_template(eve, a_project("secret", eve), "Zebra", image="zebra:1")
        ref = str(foreign.pk)
    text = page(client, template=ref)
    assert "There is no such template, or you may not see it" in text
    assert 'value="hello"' in text
    assert "zebra" not in text.lower()


def test_a_job_that_is_not_there_is_told_and_the_form_stays(client, team):
    assert "This job does not exist, or you may not see it" in page(client, like="J-999999")


def test_a_copy_says_of_which_job_it_is_and_keeps_its_project(client, olga, team, bio):
    job = a_job(olga, team, name="first")
    text = page(client, like=job.label)
    assert f'A copy of <a href="/jobs/{job.label}/">{job.label}, first</a>' in text
    assert chosen(text) == "vision"


def test_an_image_that_is_forbidden_by_now_is_told_beside_its_field_at_once(client, olga, team):
    job = a_job(olga, team, image="registry/old:1")
    ImagePolicy.objects.create(project=team, rule=ImageRule.LISTED, patterns=["registry/new:*"])
    text = page(client, like=job.label)
    assert "registry/new:*" in error_of(text, "image")
    assert 'value="registry/old:1"' in text


def test_a_project_that_one_works_in_no_more_is_told_beside_its_field(client, olga, team, bio):
    job = a_job(olga, team)
    Membership.objects.filter(user=olga, project=team).update(role="viewer")
    text = page(client, like=job.label)
    assert "vision" in error_of(text, "project")
    assert chosen(text) == "bio"


def test_an_amount_that_no_node_has_any_more_is_still_shown(client, olga, team):
    row = a_template(olga, team, device={"mig": "1g.5gb"})
    text = page(client, template=row.pk)
    assert 'value="1g.5gb" checked' in text
    assert "not available on any node" in text


def test_a_whole_gpu_of_one_model_is_its_own_card(client, olga, team):
    a_node("n2", board="A100-80GB")
    row = a_template(olga, team, device={"gpus": 2, "models": ["A100"]})
    text = page(client, template=row.pk)
    assert 'value="gpus:A100" checked' in text
    assert "one or more, of any model" in text
    form = a_form(amount="gpus:A100", gpus="1")
    assert client.post("/request/", form).status_code == 302
    assert Job.objects.get().request["device"] == {"gpus": 1, "models": ["A100"]}


def test_a_card_of_one_model_and_another_model_typed_are_refused(client, team):
    a_node("n2", board="A100-80GB")
    answer = client.post("/request/", a_form(amount="gpus:A100", models="H200"))
    assert answer.status_code == 400
    assert "A100" in error_of(answer.content.decode(), "models")


def test_the_form_is_saved_as_a_template_and_nothing_is_submitted(client, olga, team):
    form = a_form(save="template", template_project="vision", **TYPED)
    answer = client.post("/request/", form)
    row = Template.objects.get()
    assert (row.name, row.description, row.project, row.author) == (
        "Nightly",
        "every night",
        team,
        "olga",
    )
    assert row.request["env"] == {"A": "1", "B": "x=y"}
    text = answer.content.decode()
    assert f'<a href="/templates/{row.pk}/">Nightly</a>' in text
    assert "python probe.py --lr &#x27;1e-4 &#x27;" in text
    assert client.get(f"/templates/{row.pk}/").status_code == 200
    assert not Job.objects.exists()


def test_enter_beside_the_name_of_a_template_saves_it_and_starts_nothing(client, team):
    client.post("/request/", a_form(enter="", template_project="vision", **TYPED))
    assert Template.objects.exists() and not Job.objects.exists()


def test_enter_elsewhere_requests(client, team):
    client.post("/request/", a_form(enter="", template_name=" "))
    assert Job.objects.exists() and not Template.objects.exists()


@pytest.mark.parametrize(
    ("typed", "field", "status"),
    [
        ({"template_name": "Train"}, "template_name", 409),
        ({"template_name": ""}, "template_name", 400),
        ({"template_name": "<b>"}, "template_name", 400),
        ({"template_description": "d" * 250}, "template_description", 400),
        ({"template_project": "secret"}, "template_project", 400),
        ({"template_project": "*"}, "template_name", 403),
        ({"replicas": "many"}, "template_name", 400),
    ],
)
def test_a_refused_template_is_told_beside_its_field_and_keeps_what_was_typed(
    client, olga, team, typed, field, status
):
    a_template(olga, team, "Train")
    a_project("secret", a_user("eve"))
    form = a_form(save="template", template_project="vision", **TYPED) | typed
    answer = client.post("/request/", form)
    text = answer.content.decode()
    assert answer.status_code == status
    assert len(error_of(text, field)) > 8
    assert '<details class="block" id="save" open>' in text
    assert "python probe.py" in text
    assert Template.objects.count() == 1


def test_only_a_platform_admin_saves_for_everybody(client, olga, team):
    assert 'value="*"' not in page(client)
    olga.is_superuser = True
    olga.save()
    assert 'value="*"' in page(client)
    client.post("/request/", a_form(save="template", template_project="*", **TYPED))
    assert Template.objects.get().project is None


def test_a_job_leads_to_its_template(client, olga, team):
    job = a_job(olga, team, name="first")
    link = f"/request/?like={job.label}&amp;save=1#save"
    assert link in client.get(f"/jobs/{job.label}/").content.decode()
    text = page(client, like=job.label, save="1")
    assert '<details class="block" id="save" open>' in text
    assert 'name="template_name" value="first"' in text


def test_the_list_of_templates_leads_back_to_the_form(client, olga, team):
    row = a_template(olga, team)
    assert f'href="/request/?template={row.pk}"' in client.get("/templates/").content.decode()
