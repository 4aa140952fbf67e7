"""A node in the console, from its join token to ready: the command to paste, what is waited for,
what is found, and a way back."""

import base64
import re
import shlex
from datetime import timedelta
from html import unescape

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.test import Client
from django.utils import timezone

from agents.contract.calls import EnrolRequest
from agents.settings import parser
from portal.agentapi.enrolment import enrol
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.inventory.models import JoinToken, Node
from portal.inventory.services import node_add, node_withdraw
from portal.web.console.join_command import join_command
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db
TOKEN = re.compile(r"/dev/stdin &lt;&lt;&lt; ([\w-]+)")


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    return client


def added(root: Client, name: str = "gpu01", **fields: str) -> str:
    answer = root.post("/console/nodes/add", {"name": name} | fields)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    return answer.content.decode()


def joined(name: str, token: str) -> None:
    key = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    enrol(request=EnrolRequest(node=name, join_token=token, public_key=key, machine_id="m"))


def page_of(root: Client, name: str = "gpu01") -> str:
    return root.get(f"/console/nodes/{name}/").content.decode()


def test_the_command_on_the_page_joins_the_node_and_its_token_is_shown_once(root):
    page = added(root, " GPU01 ")
    (token, *others) = TOKEN.findall(page)
    assert set(others) <= {token}
    assert "for another 59 min" in page.replace("\xa0", " ")
    assert token not in page_of(root)
    joined("gpu01", token)
    line = AuditEntry.objects.get(action="node_add")
    assert (line.actor, line.noun_id) == ("root", "gpu01")
    assert token not in str(line.after)


@pytest.mark.parametrize(
    ("portal", "ca_file", "is_plain"),
    [
        ("https://portal.example", "", False),
        ("https://portal.example:8443", "/etc/our authority's.pem", False),
        ("http://127.0.0.1:8000", "", False),
        ("http://portal.example", "", True),
    ],
)
def test_the_agent_reads_both_commands_as_they_are_meant(portal, ca_file, is_plain):
    command = join_command(portal=portal, node="gpu-1.rack2", token="-secret", ca_file=ca_file)
    for text, name in ((command.service, "install-service"), (command.foreground, "run")):
        words = shlex.split(text.replace("\\\n", ""))
        assert words[:2] == ["sudo", "/opt/tessera/bin/tessera-agent"]
        assert words[-2:] == ["<<<", "-secret"], "no list of processes shows the token"
        options = parser().parse_args(words[2:-2])
        assert options.command == name
        assert (options.portal, options.name) == ([portal], "gpu-1.rack2")
        assert str(options.ca_file or "") == ca_file
        assert options.allow_plain_http is is_plain
        assert str(options.join_token_file) == "/dev/stdin"
        assert str(options.var) == "/var/lib/tessera-agent"


def test_what_cannot_be_read_is_said_at_its_field_and_adds_nothing(root):
    for fields, sentence in (
        ({"name": "no name"}, "1 to 64 characters"),
        ({"name": "gpu01", "ca_file": "our-ca.pem"}, "whole path"),
    ):
        answer = root.post("/console/nodes/add", fields)
        assert answer.status_code == 400
        assert sentence in answer.content.decode()
    assert not Node.objects.exists()


def test_a_name_that_exists_leads_to_its_page_where_a_new_token_ends_the_old_one(root):
    (old, *_) = TOKEN.findall(added(root))
    again = root.post("/console/nodes/add", {"name": "gpu01"})
    assert again.status_code == 409
    assert 'href="/console/nodes/gpu01/"' in again.content.decode()
    (new, *_) = TOKEN.findall(root.post("/console/nodes/gpu01/join-token").content.decode())
    with pytest.raises(Exception, match="wrong, used or expired"):
        joined("gpu01", old)
    joined("gpu01", new)
    assert AuditEntry.objects.filter(action="node_invite", actor="root").count() == 1


def test_a_node_that_never_came_stays_among_what_needs_attention(root):
    added(root)
    Node.objects.update(created_at=timezone.now() - timedelta(hours=3))
    JoinToken.objects.update(expires_at=timezone.now() - timedelta(hours=2))
    console = unescape(root.get("/console/").content.decode()).replace("\xa0", " ")
    assert "1 node was added and never seen" in console
    assert "gpu01, added 3 h ago" in console
    assert "gpu01" in root.get("/console/nodes/?state=unseen").content.decode()
    page = page_of(root).replace("\xa0", " ")
    assert "Waiting for gpu01" in page
    assert "Never seen since it was added 3 h ago." in page
    assert "Its join token has expired. Create a new one." in page


def test_the_page_follows_the_node_from_its_key_to_ready(root):
    (token, *_) = TOKEN.findall(added(root))
    joined("gpu01", token)
    page = page_of(root)
    assert "Waiting for gpu01" in page
    assert "Withdraw" not in page
    Node.objects.update(last_seen_at=timezone.now(), status="online")
    assert "gpu01 is in contact and looks at its GPUs" in page_of(root)
    a_node("gpu02", gpus=2)
    page = page_of(root, "gpu02")
    assert "gpu02 is ready" in page
    assert "The doctor found nothing wrong." in page
    assert "2 × NVIDIA H200" in unescape(page)


def test_what_the_doctor_found_is_listed_with_its_remedy(root):
    node = a_node("gpu01")
    node.blocks = ("block: the driver is too old Mend: apt upgrade",)
    node.report()
    page = page_of(root)
    assert "gpu01 has joined, but a check blocks it" in page
    assert "the driver is too old" in page
    assert '<code class="wrap">apt upgrade</code>' in page


def test_a_node_is_withdrawn_until_a_machine_has_joined_as_it(root):
    added(root)
    assert root.post("/console/nodes/gpu01/withdraw").status_code == 302
    assert not Node.objects.exists()
    assert AuditEntry.objects.get(action="node_withdraw").noun_id == "gpu01"
    (token, *_) = TOKEN.findall(added(root))
    joined("gpu01", token)
    root.post("/console/nodes/gpu01/withdraw")
    assert Node.objects.get().name == "gpu01"
    with pytest.raises(Refused, match="Retire it instead"):
        node_withdraw(node=Node.objects.get(), actor="root")


def test_a_node_is_retired_after_a_page_that_says_what_ends(root):
    a_node("gpu01")
    assert "Its name stays taken" in root.get("/console/nodes/gpu01/retire").content.decode()
    answer = root.post("/console/nodes/gpu01/retire", follow=True)
    assert "gpu01 is retired" in answer.content.decode()
    assert root.get("/console/nodes/gpu01/").status_code == 404
    assert AuditEntry.objects.get(action="node_retire").actor == "root"


def test_an_admin_of_an_empty_portal_is_led_from_home_to_a_first_project(root):
    text = root.get("/").content.decode()
    assert text.index("/console/nodes/add") < text.index("/projects/new")
    assert "/projects/new" in root.get("/request/").content.decode()
    node_add(name="gpu01", actor="root")
    assert 'class="btn primary small" href="/projects/new"' in root.get("/").content.decode()
    wrong = root.post("/projects/new", {"slug": "no slug", "joins": "on"})
    assert wrong.status_code == 400
    assert 'aria-invalid="true"' in wrong.content.decode()
    made = root.post("/projects/new", {"slug": "Vision", "name": "", "joins": "on"}, follow=True)
    assert "vision is created" in made.content.decode()
    assert "You are not in a project yet" not in root.get("/").content.decode()
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"project_create", "membership_set"} <= actions


def test_others_without_a_project_read_whom_to_ask(root):
    a_project("secret")
    client = Client()
    client.force_login(a_user("new"))
    for path in ("/", "/request/"):
        text = client.get(path).content.decode()
        assert "You are not in a project yet" in text
        assert "ask who runs the portal: root." in text
        assert "/console/" not in text
        assert "secret" not in text
