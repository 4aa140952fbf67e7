"""The user and the project of most tests of pages: olga and her team."""

import pytest

from portal.accounts.models import Project, User
from tests.support.rows import a_project, a_user


@pytest.fixture
def olga() -> User:
    return a_user("olga")


@pytest.fixture
def team(olga: User) -> Project:
    return a_project("vision", olga)
