"""The user and the project of most tests of pages: olga and her team; and a door of the agents'
endpoint for which no time passes."""

from types import SimpleNamespace

import pytest

from portal.accounts.models import Project, User
from portal.agentapi import endpoint
from portal.agentapi.door import Door
from portal.audit import security_events
from tests.support.rows import a_project, a_user


@pytest.fixture
def olga() -> User:
    return a_user("olga")


@pytest.fixture
def team(olga: User) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def one_minute(monkeypatch) -> None:
    """Refusals are counted by minutes: all of a test fall into one."""
    stopped = SimpleNamespace(time=lambda: 1_800_000_000.0)
    monkeypatch.setattr(security_events, "time", stopped)


@pytest.fixture
def stopped_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door of its own for which no time passes: nothing is refilled."""
    door = Door(clock=lambda: 0.0)
    monkeypatch.setattr(endpoint, "door", lambda: door)
