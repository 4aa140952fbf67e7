"""Which names resolve in a container, and where a gang meets."""

from agents.admission.policy import NodePolicy
from agents.contract.container_names import container_name
from agents.runtime.docker_images import ChosenImage
from agents.runtime.docker_recipe import ContainerRecipe
from agents.runtime.grants import no_grant
from agents.runtime.injection import Injection
from agents.workspace.workspaces import Workspaces
from tests.unit.agents.documents import NETWORK, a_replica

IMAGE = ChosenImage("train:1", "id:sha256:1", {})


def a_recipe(tmp_path, address="192.0.2.2", **policy):
    workspaces = Workspaces(tmp_path)
    return ContainerRecipe(
        "n-1", NodePolicy(**policy), Injection("nvidia"), no_grant, workspaces, address
    )


def options(recipe, replica):
    return recipe.options(replica, (), recipe.expected_rendezvous(replica), IMAGE)


def test_on_the_hosts_network_its_own_name_is_the_nodes_address(tmp_path):
    """It would not resolve at all, and gloo would fall back on loopback."""
    recipe, replica = a_recipe(tmp_path, network="host"), a_replica(devices=(), rank=0)
    found, name = options(recipe, replica), container_name(replica.job, replica.attempt, 0)
    assert (found["hostname"], found["extra_hosts"]) == (name, {name: "192.0.2.2"})
    assert found["environment"]["MASTER_ADDR"] == "192.0.2.2"
    assert found["labels"]["tessera.address"] == "192.0.2.2"


def test_over_several_engines_the_names_of_all_ranks_resolve_to_their_addresses(tmp_path):
    replica = a_replica(devices=(), gang_network=NETWORK)
    found = options(a_recipe(tmp_path), replica)
    assert found["extra_hosts"] == {
        "tessera-j-1-2-0": "10.213.7.2",
        "tessera-j-1-2-1": "10.213.7.3",
    }
    assert found["environment"]["MASTER_ADDR"] == "tessera-j-1-2-0"
    assert found["labels"]["tessera.gang"] == "7"


def test_on_one_engine_names_are_the_engines(tmp_path):
    assert options(a_recipe(tmp_path), a_replica(devices=()))["extra_hosts"] == {}
