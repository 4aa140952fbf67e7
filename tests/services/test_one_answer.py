"""A crawl of the running product: in every state, all faces show the same count of what is free."""

import re
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.services.stack import Stack, until
from tests.support.cli_process import cli_process
from tests.support.faces import Facts, assert_one_answer, cli_face, page_faces, rest_face

pytestmark = [pytest.mark.services, pytest.mark.slow]
NODE = "node-a"
PROGRAM = """
import pathlib, time
while not pathlib.Path({end!r}).exists():
    time.sleep(0.1)
"""


@pytest.fixture
def stack(tmp_path):
    with Stack(var=tmp_path / "s", nodes=(NODE,), gpus=4) as running:
        yield running


def signed_in(stack: Stack) -> httpx.Client:
    client = httpx.Client(base_url=stack.url, trust_env=False, timeout=60, follow_redirects=True)
    form = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get("/sign-in/").text)
    assert form
    fields = {"username": "alice", "password": stack.seeded["password"]}
    done = client.post("/sign-in/", data=fields | {"csrfmiddlewaretoken": form[1]})
    assert done.url.path != "/sign-in/", done.text
    return client


class Crawler:
    """Reads every face of a running stack."""

    def __init__(self, stack: Stack, client: httpx.Client, home: Path) -> None:
        self.stack, self.client = stack, client
        variables = {"TESSERA_URL": stack.url, "TESSERA_TOKEN": stack.seeded["token"]}
        self.tessera = cli_process(home, **variables)

    def cli(self, *words: str) -> str:
        done = self.tessera(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rest(self) -> Facts:
        return rest_face(self.stack.call("GET", "/availability", params={"nodes": "true"}))

    def page(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200, path
        return answer.text

    def answer_once(self, what: str, **wanted: int) -> Facts:
        """What all faces show, once REST has these numbers. Nothing happens meanwhile."""
        names = {name.replace("_", " "): number for name, number in wanted.items()}
        until(lambda: names.items() <= self.rest().items(), what=what)
        faces = page_faces(self.page) | {"rest": self.rest(), "cli": cli_face(self.cli)}
        answer = assert_one_answer(faces)
        assert names.items() <= answer.items()
        return answer


def test_all_faces_agree_while_a_slice_runs_idles_and_its_node_falls_ill(stack, tmp_path):
    with closing(signed_in(stack)) as client:
        crawler = Crawler(stack, client, tmp_path)
        crawler.answer_once("an empty node", free=4, in_service=4)
        waits = ["python3", "-c", PROGRAM.format(end=str(tmp_path / "end"))]
        job = stack.submit(waits, device={"mig": "2g.35gb"})
        stack.until_status(job, "running")
        answer = crawler.answer_once("a running slice", free=3, idle_slices=0)
        assert answer["3g.71gb available"] == 7

        (tmp_path / "end").touch()
        stack.until_status(job, "succeeded")
        answer = crawler.answer_once("an idle slice", free=4, idle_slices=1)
        assert answer["3g.71gb available"] == 8

        state = str(stack.var / "nodes" / NODE / "driver.json")
        hold = ("inject", "hold", "--gpu", "3", "--pid", "4242", "--path", state)
        stack.manage_program("agents", "simulate", *hold)
        crawler.answer_once("a foreign process", free=3, in_service=3, out=1, not_counted=1)

        stack.kill(NODE)
        answer = crawler.answer_once("a lost node", in_service=0, out=1, away=3, not_counted=4)
        assert answer["2g.35gb available"] == answer["gpus"] - 4 == 0
