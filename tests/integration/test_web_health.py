"""The cluster page tells what is wrong with a node once, and never calls free what is not."""

import pytest

from portal.inventory.models import Gpu, Node
from portal.web.cluster.node_health import node_notes
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
LOST = "the GPU has fallen off the bus: reset its bus, or reboot the node"
STRANGER = {0: "sleep (pid 7)"}


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(path: str = "/cluster/", language: str = "en") -> str:
        return client.get(path, headers={"accept-language": language}).content.decode()

    return get


def node_facts_set(node, **facts) -> None:
    """Facts as the agent reported them last."""
    Node.objects.filter(pk=node.row.pk).update(facts={**node.row.facts, **facts})


def drawn(text: str, cls: str) -> int:
    """Blocks of this class in the nodes' drawings, without the legend's."""
    return text.partition('id="map"')[2].count(f'<rect class="{cls}"')


def test_gpus_that_are_out_for_one_reason_stand_in_one_sentence_in_full(page):
    node = a_node("n1", gpus=4)
    node.faults = {1: LOST, 2: LOST, 3: "quarantined: refused for more than 5 minutes"}
    node.report()
    text = page()
    assert f"<span>GPUs 1-2: {LOST}</span>" in text
    assert "<span>GPU 3: quarantined: refused for more than 5 minutes</span>" in text
    assert "1 GPU free now" in text
    assert drawn(text, "fault") == 3
    assert text.index("GPUs 1-2:") < text.index("GPU 3: quarantined")


def test_a_gpu_that_the_driver_no_longer_lists_has_a_reason_too(page):
    a_node("n1")
    Gpu.objects.update(health="missing", health_reason="")
    assert "<span>GPU 0: the driver no longer lists it</span>" in page()


def test_a_warning_is_said_once_as_a_warning_with_its_remedy_and_breaks_nothing(page):
    node = a_node("n1")
    node_facts_set(node, problems=["warn: time is off Mend: chronyc makestep"] * 2)
    text = page()
    assert text.count("time is off") == 1
    assert "warn: time" not in text
    assert '<code class="wrap">chronyc makestep</code>' in text
    assert "1 GPU free now" in text
    assert "Online" in text
    assert drawn(text, "fault") == 0


def test_what_blocks_stands_before_what_warns():
    node = a_node("n1").row
    node.facts |= {"blocks": ["block: b"], "problems": ["warn: w", "block: b"]}
    assert [(note.cls, note.text) for note in node_notes(node, ())] == [("bad", "b"), ("warn", "w")]


def test_a_gpu_that_a_stranger_uses_is_neither_free_nor_broken(page, olga):
    a_project("vision", olga)
    node = a_node("n1")
    node.busy = STRANGER
    node.report()
    text = page()
    assert "Nothing is free now" in text
    assert "a process outside Tessera" in text
    assert (drawn(text, "free"), drawn(text, "fault")) == (0, 0)
    assert "none in service" in page("/request/")


def test_a_stranger_hides_nobodys_job(page, olga):
    node = a_node("n1")
    a_job(olga, a_project("vision", olga), device={"gpus": 1}, name="tuning")
    settle(node)
    node.busy = STRANGER
    node.report()
    assert "tuning" in page()


def test_a_cordoned_node_says_why_and_has_nothing_free(page):
    a_node("n1")
    Node.objects.update(schedulable=False, cordon_reason="new fans")
    text = page()
    assert "Takes no new work: new fans" in text
    assert "the node takes no new work" in text
    assert drawn(text, "free") == 0
    assert "Nothing is free now" in text
    assert "不接受新作业：new fans" in page(language="zh-hans")


def test_whole_gpus_of_different_sizes_are_not_shown_as_one_size(page, olga):
    a_project("vision", olga)
    a_node("n1")
    assert "one or more H200<" in page("/request/")
    a_node("n2", board="L40S-48GB")
    text = page("/request/")
    assert "one or more, of any model<" in text
    for size in ("141", "48"):
        assert f">{size}\N{NO-BREAK SPACE}GB</b><span>whole GPU<" in text, size


def test_ones_own_rows_are_marked_in_the_table(page, olga):
    node = a_node("n1")
    a_job(olga, a_project("vision", olga))
    settle(node)
    assert page().count('<tr class="mine">') == 1
