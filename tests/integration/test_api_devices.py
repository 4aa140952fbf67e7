"""Nodes, GPUs and slices over REST: in pages, in their order, whole or of one node."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from portal.inventory.models import Gpu
from tests.support.rows import a_job, a_node, a_project, a_user, settle


@pytest.fixture
def client(db) -> APIClient:
    cache.clear()
    olga = a_user("olga")
    for name in ("n2", "n1", "n3"):
        a_node(name, gpus=3)
    for nth in range(3):
        a_job(olga, a_project(f"vision-{nth}", olga))
    settle()
    client = APIClient()
    client.force_login(olga)
    return client


def pages(client: APIClient, path: str, **asked: Any) -> Iterator[list[dict[str, Any]]]:
    """The rows of each page, following `next`."""
    url: str | None = f"/api/v1/{path}"
    while url:
        answer = client.get(url, asked)
        assert answer.status_code == 200, answer.content
        yield answer.json()["results"]
        url, asked = answer.json()["next"], {}


@pytest.mark.parametrize("size", [1, 2, 4, 50])
def test_pages_of_gpus_have_each_of_them_once_by_node_and_index(client, size):
    found = [
        (row["node"], row["index"])
        for page in pages(client, "gpus", page_size=size)
        for row in page
    ]
    assert found == [(node, index) for node in ("n1", "n2", "n3") for index in range(3)]


@pytest.mark.parametrize("size", [1, 2, 50])
def test_pages_of_slices_have_each_of_them_once_where_they_sit(client, size):
    told = [row for page in pages(client, "slices", page_size=size) for row in page]
    whole = [row["id"] for page in pages(client, "slices") for row in page]
    assert [row["id"] for row in told] == whole
    assert len(set(whole)) == 3
    assert all(row["held"] and row["holder"] for row in told)
    assert [row["node"] for row in told] == sorted(row["node"] for row in told)


def test_pages_of_nodes_go_by_name(client):
    found = [[row["name"] for row in page] for page in pages(client, "nodes", page_size=2)]
    assert found == [["n1", "n2"], ["n3"]]


def test_a_page_says_which_of_its_gpus_are_held(client):
    told = [row for page in pages(client, "gpus", page_size=4) for row in page]
    held = [piece["holder"]["owner"] for row in told for piece in row["slices"] if piece["held"]]
    assert held == ["olga"] * 3


@pytest.mark.parametrize("path", ["gpus", "slices"])
def test_a_list_is_narrowed_to_one_node(client, path):
    Gpu.objects.filter(node__name="n2").update(board="H100-80GB")
    (rows,) = pages(client, path, node="n1")
    assert {row["node"] for row in rows} <= {"n1"}
    assert list(pages(client, path, node="n9")) == [[]]


@pytest.mark.parametrize("path", ["gpus", "slices", "nodes"])
@pytest.mark.parametrize("position", ["n1%00", "%0A", "a" * 65])
def test_a_cursor_that_is_no_name_is_not_found(client, path, position):
    cursor = b64encode(f"p={position}".encode()).decode()
    assert client.get(f"/api/v1/{path}", {"cursor": cursor}).status_code == 404
