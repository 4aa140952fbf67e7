"""Reads the faces of the product in this process, without servers."""

from collections.abc import Callable
from pathlib import Path

from django.test import Client

from portal.accounts.models import TokenScope, User
from tests.support.cli_runner import Person
from tests.support.faces import Facts, assert_one_answer, cli_face, page_faces, rest_face


def face_reader(user: User, home: Path) -> Callable[[], Facts]:
    """Reads every face as this user and returns what they show together. Raises AssertionError
    where two of them differ."""
    person, client = Person(user, home, TokenScope.READ), Client()
    client.force_login(user)

    def read() -> Facts:
        faces = page_faces(lambda path: client.get(path).content.decode())
        faces["rest"] = rest_face(client.get("/api/v1/availability?nodes=true").json())
        faces["cli"] = cli_face(person.output)
        return assert_one_answer(faces)

    return read
