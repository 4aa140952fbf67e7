"""Who may read which stream, beside the matrix of pages: here, transactions are real."""

from __future__ import annotations

import pytest

from tests.support.page_routes import STREAMS, address_of, with_names_of_pages
from tests.support.rights import PEOPLE, a_world


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", sorted(STREAMS))
def test_streams(page: str):
    world = with_names_of_pages(a_world())
    address = address_of(world, page)
    kinds = (*PEOPLE, "anonymous")
    said = tuple(world.status_kept(kind, "get", address, {}) for kind in kinds)
    assert said == STREAMS[page]
