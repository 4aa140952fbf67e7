"""The cluster page of many nodes: narrowed by the URL, few drawn, every place told."""

from __future__ import annotations

import re

import pytest

from portal.demo.scale import ClusterSize
from portal.inventory.models import Node
from portal.web.cluster.filter import DRAWN_NODES, PAGE_SIZE
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.scale_rows import seeded

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(path: str = "/cluster/", **fields) -> str:
        answer = client.get(path, fields)
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def maps(text: str) -> int:
    return text.count('<svg class="map roomy"')


def listed(text: str) -> list[str]:
    part = text.partition('id="nodes"')[2].partition("</table>")[0]
    return [piece.split("/")[0] for piece in part.split('<a href="/cluster/')[1:]]


def test_of_many_nodes_a_few_are_drawn_and_the_others_are_a_line_each(page):
    seeded(ClusterSize(jobs=80, nodes=60, users=8, projects=2))
    text = page()
    assert maps(text) == DRAWN_NODES
    assert len(listed(text)) == PAGE_SIZE
    assert "Page 1 of 2" in text
    second = page(page="2")
    assert len(listed(second)) == 10
    assert not set(listed(text)) & set(listed(second))
    assert "Page 2 of 2" in page(page="99")


def test_few_nodes_are_all_drawn(page):
    for name in ("n1", "n2", "n3"):
        a_node(name)
    assert maps(page()) == 3
    assert listed(page()) == []


def test_the_url_narrows_by_model_state_room_and_text(page):
    a_node("h200", gpus=2)
    a_node("l40s", board="L40S-48GB")
    closed = a_node("shut")
    Node.objects.filter(pk=closed.row.pk).update(schedulable=False, labels=["pool=serve"])
    assert 'id="n-h200"' in page(model="H200")
    assert 'id="n-l40s"' not in page(model="H200")
    assert 'id="n-shut"' in page(state="closed")
    assert 'id="n-h200"' not in page(state="closed")
    fits = page(fits="2g.35gb")
    assert ('id="n-h200"' in fits, 'id="n-l40s"' in fits, 'id="n-shut"' in fits) == (
        True, False, False,
    )  # fmt: skip
    assert 'id="n-shut"' in page(q="serve")
    assert "No node matches" in page(q="nothing of this name")


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\x00\u202e", "x" * 10_000])
def test_whatever_is_typed_is_inert(page, text):
    a_node("n1")
    found = page(q=text, model=text, state=text, fits=text, group=text, page=text)
    assert "<script>alert" not in found
    assert "\u202e" not in found
    assert f'"{"x" * 65}' not in found, "the form keeps a part of it"


def test_a_grouped_page_has_a_line_for_each_group_and_its_nodes_behind_it(page):
    seeded(ClusterSize(jobs=60, nodes=30, users=8, projects=2))
    text = page(group="pool")
    assert maps(text) == 0
    assert listed(text) == []
    assert "30 nodes by pool" in text
    links = re.findall(
        r'<a href="\?group=pool&amp;of=(\w+)">(\w+)</a></th><td class="num">(\d+)', text
    )
    assert [name for _, name, _ in links] == sorted(name for _, name, _ in links)
    for of, name, count in links:
        inside = page(group="pool", of=of)
        assert (len(listed(inside)) or maps(inside)) == int(count)
        assert f"pool={name}" in inside
    assert sum(int(count) for _, _, count in links) == 30


def test_nodes_of_no_group_are_a_group_too(page):
    a_node("n1")
    labelled = a_node("n2")
    Node.objects.filter(pk=labelled.row.pk).update(labels=["rack=r1"])
    assert ">none</a>" in page(group="rack")
    text = page(group="rack", of="~")
    assert ('id="n-n1"' in text, 'id="n-n2"' in text) == (True, False)
    assert "No node matches" in page(group="rack", of="r9")


def test_groups_are_paged_as_nodes_are(page):
    for nth in range(PAGE_SIZE + 1):
        node = a_node(f"n{nth}")
        Node.objects.filter(pk=node.row.pk).update(labels=[f"rack=r{nth:03}"])
    assert "Page 1 of 2" in page(group="rack")
    assert "r050" in page(group="rack", page="2")


def test_a_node_without_gpus_takes_no_place_among_the_drawn(page):
    seeded(ClusterSize(jobs=20, nodes=12, users=5, projects=2))
    Node.objects.create(name="a-first")
    text = page()
    assert maps(text) == DRAWN_NODES
    assert 'id="n-a-first"' not in text
    assert listed(text)[0] == "a-first"


def test_a_place_that_was_clicked_is_told_with_all_that_fits(page):
    a_node("n1")
    text = page("/cluster/n1/", gpu="0", at="0")
    assert 'id="cell"' in text
    assert "7 × 1g.18gb" in text
    assert 'aria-current="true"><title>Free' in text
    assert 'href="/request/?amount=gpus"' in text


def test_beside_a_slice_only_what_is_legal_is_offered(page, olga):
    node = a_node("n1")
    a_job(olga, a_project("vision", olga), device={"mig": "3g.71gb"})
    settle(node)
    drawn = page("/cluster/n1/")
    at = drawn.split('href="/cluster/n1/?gpu=0&amp;at=')[1].split("#")[0]
    text = page("/cluster/n1/", gpu="0", at=at)
    ways = text.partition("One of these sets of slices fits here.")[2].partition("</section>")[0]
    assert "1 × 3g.71gb" in ways
    assert "7g.141gb" not in ways
    assert "The slices beside it keep running." in text


def test_a_gang_on_neighbouring_gpus_is_one_block_and_one_row_of_the_table(page, olga):
    node = a_node("n1", gpus=4)
    a_job(olga, a_project("vision", olga), device={"gpus": 3}, name="wide")
    settle(node)
    text = page()
    assert 'height="143"' in text
    assert '<th scope="row">GPU 0 to 2</th>' in text
    assert text.count('<tr class="mine">') == 1


def test_a_node_that_is_not_there_is_not_found(client, olga):
    client.force_login(olga)
    assert client.get("/cluster/n9/").status_code == 404
    gone = a_node("n1")
    Node.objects.filter(pk=gone.row.pk).update(status="retired")
    assert client.get("/cluster/n1/").status_code == 404


def test_only_a_platform_admin_is_offered_to_drain_and_to_preview(client, olga):
    a_node("n1")
    root = a_user("root", is_superuser=True)
    for user, offered in ((olga, False), (root, True)):
        client.force_login(user)
        text = client.get("/cluster/n1/").content.decode()
        assert ("/console/nodes/n1/drain" in text) is offered
        assert ("/console/nodes/n1/preview" in text) is offered


def test_foreign_work_has_neither_name_nor_owner_nor_time(page):
    stranger = a_user("stranger")
    node = a_node("n1")
    a_job(stranger, a_project("secret", stranger), name="zebra", device={"gpus": 1})
    settle(node)
    text = page() + page("/cluster/n1/", gpu="0", at="0")
    assert "another project" in text
    for word in ("zebra", "stranger", "secret", " left"):
        assert word not in text


def test_numa_nodes_are_bracketed_where_their_gpus_stand_together(page):
    seeded(ClusterSize(jobs=20, nodes=4, users=5, projects=2))
    assert ">NUMA 1</text>" in page()
