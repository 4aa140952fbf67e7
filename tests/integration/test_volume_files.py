"""A config.json of a volume: from the advisor's page and REST to a node that offers the volume."""

import asyncio
import json
from contextlib import AsyncExitStack
from html import unescape

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from agents.admission.volume_roots import VolumeRoot
from agents.contract.tunnel import StreamRefusal, read_target
from agents.contract.volumes import OfferedRoot
from agents.ports.tunnel_service import AgentTunnel
from agents.volumes.roots import VolumeRoots
from agents.volumes.volume_files import VolumeFiles
from portal.accounts.models import Membership, Role
from portal.inventory.models import Node
from portal.tunnel import streams
from portal.tunnel.held import hold_tunnel
from portal.volumes import node_files
from portal.volumes.services import VolumeValues, volume_create
from tests.integration.test_advice import CONFIG
from tests.support.memory_tunnel import tunnel
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
# A bound for what never comes; the first call of a process loads all views.
LONG_SECONDS = 300
PLACE = "volume:models/llama/config.json"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Nobody waits for a tunnel that never comes."""
    monkeypatch.setattr(streams, "TUNNEL_SECONDS", 0.0)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def models(team):
    values = VolumeValues(projects=(team,))
    root = a_user("root", is_superuser=True)
    return volume_create(actor=root, name="models", root="nfs", subpath="llms", values=values)


@pytest.fixture
def folder(tmp_path):
    """The volume's folder on the node."""
    folder = tmp_path / "llms"
    (folder / "llama").mkdir(parents=True)
    for each in (tmp_path, folder, folder / "llama"):
        each.chmod(0o755)
    (folder / "llama" / "config.json").write_text(json.dumps(CONFIG))
    return folder


def a_node_with(root: OfferedRoot, name: str = "n1") -> Node:
    node = a_node(name)
    node.volume_roots = (root,)
    node.report()
    return node.row


class Agent:
    """The agent's end of a tunnel: its real reading of volumes."""

    def __init__(self, root) -> None:
        roots = VolumeRoots((VolumeRoot("nfs", str(root)),))
        self._service = AgentTunnel(None, None, None, None, VolumeFiles(roots))
        self.targets = []

    async def serve(self, incoming) -> None:
        self.targets.append(read_target(incoming.target))
        await self._service._serve(incoming)


class Refusing(Agent):
    """An agent that opens nothing, as one that is older than such streams."""

    async def serve(self, incoming) -> None:
        self.targets.append(read_target(incoming.target))
        incoming.refuse(StreamRefusal.FAILED)


def with_tunnels(call, *nodes):
    """What `call` returns, as a view in a thread of the process that holds these nodes' tunnels."""

    async def scenario():
        async with asyncio.timeout(LONG_SECONDS), AsyncExitStack() as stack:
            for node, agent in nodes:
                portal, _, _ = await stack.enter_async_context(tunnel(agent.serve))
                stack.enter_context(hold_tunnel(node.pk, portal))
            return await sync_to_async(call, thread_sensitive=False)()

    return asyncio.run(scenario())


def asking(user, place=PLACE, status=200, **fields):
    """A call of REST; of a refusal the sentence at `config_file`."""

    def call():
        client = Client()
        client.force_login(user)
        body = {"task": "lora", "config_file": place} | fields
        answer = client.post("/api/v1/advice", body, content_type="application/json")
        assert answer.status_code == status, answer.content
        if status == 200:
            return answer.json()
        (error,) = answer.json()["errors"]
        assert error["field"] == "config_file"
        return error["message"]

    return call


def test_a_config_of_a_volume_is_read_by_a_node_that_offers_it(olga, models, folder, tmp_path):
    node, agent = a_node_with(OfferedRoot("nfs")), Agent(tmp_path)
    answer = with_tunnels(asking(olga), (node, agent))
    assert (answer["parameters"], answer["reference"]) == (8_030_261_248, PLACE)
    (target,) = agent.targets
    assert (target.project, target.root, target.subpath) == ("vision", "nfs", "llms")
    assert target.volume_file == "llama/config.json"


def test_the_page_takes_a_volume_and_a_path_as_an_address(olga, models, folder, tmp_path):
    node, agent = a_node_with(OfferedRoot("nfs")), Agent(tmp_path)
    client = Client()
    client.force_login(olga)
    chosen = {"config_volume": "models", "config_path": "llama/config.json", "task": "lora"}
    answer = client.post("/advise/", chosen)
    assert answer.status_code == 302
    answer = with_tunnels(lambda: client.get(answer["Location"]), (node, agent))
    text = unescape(answer.content.decode()).replace("\u00a0", " ")
    assert answer.status_code == 200 and "8.03 billion parameters" in text
    assert "<option selected>models</option>" in text and 'value="llama/config.json"' in text
    # Without a path it is the config.json of the volume itself, which this one has not.
    missing = {"config_volume": "models", "task": "lora"}
    answer = with_tunnels(lambda: client.get("/advise/", missing), (node, agent))
    text = unescape(answer.content.decode())
    assert answer.status_code == 400 and "The volume has no such file" in text
    assert 'aria-describedby="config_path-error"' in text
    assert agent.targets[-1].volume_file == "config.json"
    for fields, sentence in (
        ({"config_path": "config.json"}, "Choose the volume that has this file"),
        (chosen | {"config_file": "J-1:config.json"}, "not both"),
        (chosen | {"model": "llama2-7b"}, "one of them"),
        ({"config_file": "volume:a\0/config.json"}, "There is no such volume"),
    ):
        answer = client.get("/advise/", {"task": "lora"} | fields)
        assert answer.status_code == 400 and sentence in unescape(answer.content.decode())


def test_only_who_works_in_a_project_of_the_volume_reaches_it(olga, team, models, folder, tmp_path):
    node, agent = a_node_with(OfferedRoot("nfs")), Agent(tmp_path)
    viewer, other = a_user("viewer"), a_user("other")
    a_project("speech", other)
    Membership.objects.create(user=viewer, project=team, role=Role.VIEWER)
    for user in (viewer, other, a_user("nobody")):
        sentence = with_tunnels(asking(user, status=400), (node, agent))
        assert sentence == with_tunnels(asking(user, "volume:none/c.json", 400), (node, agent))
        assert "There is no such volume" in sentence
    # Named for another project of hers, or for a stranger's, it is read for one that has it.
    a_project("audio", olga)
    for project in ("audio", "speech", "vision"):
        with_tunnels(asking(olga, project=project), (node, agent))
    assert {target.project for target in agent.targets} == {"vision"}


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("llama/none.json", "The volume has no such file"),
        ("llama/large.json", "larger than 256 KB"),
        ("llama/list.json", "not a JSON object"),
        ("llama/foo.json", "FooForCausalLM"),
        ("llama/binary.json", "not a JSON object"),
        ("out.json", "not a regular file of the volume"),
        ("../secret.json", "no '..'"),
        ("llama/config.yaml", "ends in .json"),
        ("", "ends in .json"),
        ("x" * 600 + ".json", "too long"),
    ],
)
def test_what_is_no_config_is_refused_with_what_it_is(
    olga, models, folder, tmp_path, path, sentence
):
    contents = {
        "large.json": b" " * 300_000,
        "list.json": b"[]",
        "foo.json": json.dumps(CONFIG | {"architectures": ["FooForCausalLM"]}).encode(),
        "binary.json": bytes(range(256)),
    }
    for name, content in contents.items():
        (folder / "llama" / name).write_bytes(content)
    (folder / "out.json").symlink_to("../secret.json")
    (tmp_path / "secret.json").write_text(json.dumps(CONFIG))
    node, agent = a_node_with(OfferedRoot("nfs")), Agent(tmp_path)
    asked = asking(olga, f"volume:models/{path}", 400)
    assert sentence in with_tunnels(asked, (node, agent))


def test_another_node_is_asked_where_one_cannot_read(olga, models, folder, tmp_path):
    """But not where it says what is wrong with the file."""
    away = a_node_with(OfferedRoot("nfs"), "a-away")
    older, newer = (a_node_with(OfferedRoot("nfs"), name) for name in ("b-older", "c-newer"))
    refusing, agent = Refusing(tmp_path), Agent(tmp_path)
    held = (older, refusing), (newer, agent)
    assert with_tunnels(asking(olga), *held)["parameters"] == 8_030_261_248
    assert len(refusing.targets) == len(agent.targets) == 1
    sentence = with_tunnels(asking(olga, "volume:models/none.json", 400), (away, agent), *held)
    assert "no such file" in sentence and len(refusing.targets) == 1
    sentence = with_tunnels(asking(olga, status=400), (older, refusing))
    assert "No node that offers this volume answered" in sentence


def test_nodes_without_a_way_are_told_at_once(olga, models):
    assert "is connected now" in asking(olga, status=400)()
    a_node_with(OfferedRoot("other"))
    assert "is connected now" in asking(olga, status=400)()
    a_node_with(OfferedRoot("nfs", driver="local"), "n2")
    assert "A driver of the nodes' engines" in asking(olga, status=400)()


def test_a_node_that_says_nothing_is_given_up(olga, models, tmp_path, monkeypatch):
    class Silent(Agent):
        async def serve(self, incoming) -> None:
            incoming.accept()
            await asyncio.Event().wait()

    monkeypatch.setattr(node_files, "TOTAL_SECONDS", 0.2)
    node = a_node_with(OfferedRoot("nfs"))
    sentence = with_tunnels(asking(olga, status=400), (node, Silent(tmp_path)))
    assert "answered" in sentence
