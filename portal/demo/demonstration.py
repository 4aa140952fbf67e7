"""The demonstration from start to end: migrate, seed, start, submit, follow, stay, stop."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.core.management import call_command

from portal.accounts.services import token_revoke
from portal.demo.example import Alice, Result, follow, request_body
from portal.demo.preflight import HOST
from portal.demo.processes import Children, DemoFailed
from portal.demo.runtime_choice import Choice, choose
from portal.demo.seed import ACTOR, Seed, secret_key, seed
from portal.demo.terminal import Screen

BOARD = "H200-141GB"
GPUS = 4
# What a shell may have exported for another purpose, and what only a node is told.
NOT_PASSED_ON = ("TESSERA_JOIN_TOKEN", "TESSERA_SIMULATED_DRIVER", "TESSERA_SECRET_KEY")


@dataclass
class House:
    """`environ` is ours; children get it with the few values that make them one house."""

    var: Path
    port: int
    screen: Screen
    environ: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def run(self, *, with_job: bool, stay: bool) -> Result | None:
        """The example job's result, if there was one. Everything started has ended on return."""
        with ExitStack() as stack:
            stack.enter_context(_alone(self.var))
            (self.var / "static").mkdir(exist_ok=True)  # whitenoise warns where it is missing
            call_command("migrate", verbosity=0)
            found = seed(self.var / "nodes")
            stack.callback(token_revoke, token=found.token, actor=ACTOR)
            children = Children(logs=self.var / "log", env=self._env())
            alice = Alice(self.url, found.token_text)
            stack.callback(alice.close)
            stack.callback(children.stop)
            choice = self._start(children, alice, found)
            self._welcome(found)
            result = self._example(children, alice, choice) if with_job else None
            if stay:
                self._stay(children)
            return result

    def _start(self, children: Children, alice: Alice, found: Seed) -> Choice:
        self.screen.phase("starting", "web and worker")
        children.start(
            "web",
            *("uvicorn", "portal.asgi:application", "--host", HOST, "--port", str(self.port)),
            *("--log-level", "warning", "--timeout-graceful-shutdown", "3"),
        )
        children.start(
            "worker",
            *("celery", "-A", "portal", "worker", "--concurrency", "1", "--beat"),
            *("--schedule", str(self.var / "beat-schedule")),
            *("--loglevel", "info", "--without-gossip", "--without-mingle"),
        )
        choice = choose(self.environ)
        children.until(alice.answers, what="the web process")
        for name, join in found.joins.items():
            self._start_agent(children, name, join, choice)
        wanted = set(found.joins)
        children.until(lambda: wanted <= alice.online() & alice.gpus_of(), what="the nodes")
        children.until(lambda: _is_ready(children.log("worker")), what="the worker")
        self.screen.finish()
        self.screen.note(f"  runtime    {choice.kind}: {choice.why}")
        return choice

    def _start_agent(self, children: Children, name: str, join: str, choice: Choice) -> None:
        home = self.var / "nodes" / name
        state = home / "driver.json"
        if not state.exists():
            home.mkdir(parents=True, exist_ok=True)
            _create_node(children, name, state)
        env = {"TESSERA_SIMULATED_DRIVER": str(state)}
        if join:
            env["TESSERA_JOIN_TOKEN"] = join
        if choice.base_url:
            env["DOCKER_HOST"] = choice.base_url
        children.start(
            name,
            *("agents", "run", "--portal", self.url, "--var", str(home / "agent")),
            *("--name", name, "--runtime", choice.kind, "--stop-jobs-on-exit"),
            env=env,
        )

    def _welcome(self, found: Seed) -> None:
        say = self.screen.note
        say(f"\n  Tessera    {self.url}")
        for name, password in found.passwords.items():
            say(f"  {name:<10} password {password}  (shown this once)")
        if not found.passwords:
            say("  sign in as alice or admin; new password: python manage.py changepassword alice")
        say()

    def _example(self, children: Children, alice: Alice, choice: Choice) -> Result:
        body = request_body(choice.kind)
        job = alice.submit(body)
        self.screen.note(f"  {job}: {body['replicas']} replicas, each on a {body['device']['mig']}")
        result = follow(alice, job, children, self.screen)
        agreed = "every rank has the right sum" if result.allreduce_ok else "no right sum"
        started = result.submit_to_running_s
        took = "it never ran" if started is None else f"running {started:.1f} s after the submit"
        self.screen.note(f"  {job} {result.state}: {agreed}, {took}, {result.gpu_hours} GPU-hours")
        self.screen.note(f"  {self.url}/jobs/{job}/\n")
        return result

    def _stay(self, children: Children) -> None:
        self.screen.note(f"  {self.url} stays up until Ctrl-C; logs are in {children.logs}/")
        forever = float("inf")
        children.until(lambda: False, what="Ctrl-C", seconds=forever)

    def _env(self) -> dict[str, str]:
        kept = {name: value for name, value in self.environ.items() if name not in NOT_PASSED_ON}
        return kept | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
            "TESSERA_VAR": str(self.var),
            "TESSERA_SECRET_KEY": secret_key(self.var),
            "PYTHONUNBUFFERED": "1",
        }


@contextmanager
def _alone(var: Path) -> Iterator[None]:
    """Two demonstrations in one folder would share a database and fight over its nodes."""
    with (var / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            sentence = f"another demonstration runs in {var}: end it, or set TESSERA_VAR."
            raise DemoFailed(sentence) from held
        yield


def _create_node(children: Children, name: str, state: Path) -> None:
    """The simulated driver's program writes the state file, in one step."""
    maker = f"{name}-driver"
    create = ("create", "--path", str(state), "--board", BOARD, "--gpus", str(GPUS))
    children.start(maker, "agents.simdriver", *create)
    process = children.running.pop(maker)
    if process.wait(30) != 0:
        raise DemoFailed(f"{name}'s simulated driver cannot be made: see {children.log(maker)}")


def _is_ready(log: Path) -> bool:
    """Celery says so once, when it takes messages."""
    return " ready." in log.read_text("utf-8", "replace")
