"""The demonstration from start to end: migrate, seed, start, submit, follow, stay, stop."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.core.management import call_command

from portal.accounts.services import token_revoke
from portal.demo.example import AliceClient, ExampleResult, follow_job, request_body
from portal.demo.preflight import HOST, LOCK, running_sentence
from portal.demo.private_folder import PRIVATE_UMASK, close_folder
from portal.demo.processes import ChildProcesses, DemoFailed
from portal.demo.remedies import manage_command, var_variable
from portal.demo.runtime_choice import IMAGE, RuntimeChoice, choose_runtime
from portal.demo.seed import ACTOR, PEOPLE, DemoSeed, create_people, secret_key, seed_demo
from portal.demo.templates import add_demo_templates
from portal.demo.terminal import Screen

BOARD = "H200-141GB"
GPUS = 4
# Not passed on to children: values from the shell for another purpose, and a node's own.
WITHHELD_VARIABLES = ("TESSERA_JOIN_TOKEN", "TESSERA_SIMULATED_DRIVER", "TESSERA_SECRET_KEY")
# Celery's, whose last line would be quoted as what is waited for. Who tries it out may be root.
NO_WARNING_OF_ROOT = "ignore:You're running the worker with superuser privileges"


@dataclass
class Demonstration:
    """One run. Children get `environ` with the settings that connect them."""

    var: Path
    port: int
    screen: Screen
    environ: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def run(self, *, with_job: bool, stay: bool) -> ExampleResult | None:
        """Run it. Returns the example job's result, if any; on return every child has ended."""
        with ExitStack() as stack:
            os.umask(PRIVATE_UMASK)
            close_folder(self.var)
            stack.enter_context(_exclusive(self.var, self.url))
            (self.var / "static").mkdir(exist_ok=True)  # whitenoise warns if it is missing
            self.screen.phase("database", "bringing its tables up to date")
            call_command("migrate", verbosity=0)
            self._print_people(create_people())
            seed = seed_demo(self.var / "nodes")
            stack.callback(token_revoke, token=seed.token, actor=ACTOR)
            children = ChildProcesses(logs=self.var / "log", env=self._env())
            alice = AliceClient(self.url, seed.token_text)
            stack.callback(alice.close)
            stack.callback(children.stop)
            choice = self._start(children, alice, seed)
            add_demo_templates(choice.kind)
            self.screen.note(f"\n  Tessera    {self.url}\n")
            result = self._example(children, alice, choice) if with_job else None
            if stay:
                self._stay(children)
            return result

    def _start(self, children: ChildProcesses, alice: AliceClient, seed: DemoSeed) -> RuntimeChoice:
        children.start(
            "web",
            *("uvicorn", "portal.asgi:application", "--host", HOST, "--port", str(self.port)),
            *("--log-level", "warning", "--timeout-graceful-shutdown", "3", "--no-proxy-headers"),
        )
        children.start(
            "worker",
            *("celery", "-A", "portal", "worker", "--concurrency", "1", "--beat"),
            *("--schedule", str(self.var / "beat-schedule")),
            *("--loglevel", "info", "--without-gossip", "--without-mingle"),
            env={"PYTHONWARNINGS": NO_WARNING_OF_ROOT},
        )
        self.screen.phase("runtime", "looking for a Docker Engine that takes simulated GPUs")
        choice = choose_runtime(self.environ)
        self.screen.note(f"  runtime    {choice.kind}: {choice.reason}")
        self.screen.phase("web", "starting; it loads the planner")
        self._wait(children, alice.is_up, what="the web process", child="web")
        self.screen.phase("nodes", "starting an agent on each")
        for name, join in seed.join_tokens.items():
            self._start_agent(children, name, join, choice)
        for name in seed.join_tokens:
            self._wait(children, partial(alice.is_in_use, name), what=name, child=name)
        self.screen.phase("worker", "it plans and drives the nodes")
        worker = children.log("worker")
        self._wait(children, lambda: _is_ready(worker), what="the worker", child="worker")
        self.screen.finish()
        return choice

    def _wait(
        self, children: ChildProcesses, check: Callable[[], bool], *, what: str, child: str
    ) -> None:
        """Wait as long as all children live, and say for what."""
        phase = self.screen.current

        def report(waited: float) -> None:
            self.screen.phase(phase, children.waiting_for(what, child, waited))

        children.wait_until(check, what=what, report=report)

    def _start_agent(
        self, children: ChildProcesses, name: str, join: str, choice: RuntimeChoice
    ) -> None:
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

    def _print_people(self, passwords: Mapping[str, str]) -> None:
        """Before anything else is started: what fails later must not lose them."""
        for line in password_lines(passwords, self.var):
            self.screen.note(line)

    def _example(
        self, children: ChildProcesses, alice: AliceClient, choice: RuntimeChoice
    ) -> ExampleResult:
        body = request_body(choice.kind)
        job = alice.submit(body)
        self.screen.note(f"  {job}: {body['replicas']} replicas, each on a {body['device']['mig']}")
        result = follow_job(alice, job, children, self.screen)
        check = "all ranks computed the right sum" if result.allreduce_ok else "wrong sum"
        started = result.submit_to_running_s
        start = "never started" if started is None else f"started {started:.1f} s after the submit"
        self.screen.note(f"  {job} {result.state}: {check}, {start}, {result.gpu_hours} GPU-hours")
        self.screen.note(f"  {self.url}/jobs/{job}/\n")
        return result

    def _stay(self, children: ChildProcesses) -> None:
        self.screen.note(f"  {self.url} runs until Ctrl-C; logs are in {children.logs}/")
        children.wait_until(lambda: False, what="Ctrl-C")

    def _env(self) -> dict[str, str]:
        passed_on = {
            name: value for name, value in self.environ.items() if name not in WITHHELD_VARIABLES
        }
        # Browsers lead every name below it to this machine. Simulated nodes need no nccl-tests in
        # the image by which they measure networks.
        return (
            {"TESSERA_APPS_DOMAIN": "localhost", "TESSERA_NCCL_TESTS_IMAGE": IMAGE}
            | passed_on
            | {
                "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
                "TESSERA_VAR": str(self.var),
                "TESSERA_PUBLIC_URL": self.url,
                "TESSERA_SECRET_KEY": secret_key(self.var),
                "PYTHONUNBUFFERED": "1",
            }
        )


def password_lines(passwords: Mapping[str, str], var: Path) -> list[str]:
    """The users' new passwords, and how to get others."""
    another = manage_command("demo", "--new-passwords", environ=var_variable(var))
    if passwords:
        lines = [f"  {name:<10} password {text}" for name, text in passwords.items()]
        return [*lines, f"  {'':<10} shown only now; for new ones: {another}"]
    return [f"  {'users':<10} {' and '.join(PEOPLE)}; for new passwords: {another}"]


@contextmanager
def _exclusive(var: Path, url: str) -> Iterator[None]:
    """Hold the folder's lock: two demonstrations would share a database and its nodes."""
    with (var / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DemoFailed(running_sentence(var)) from error
        lock.truncate(0)
        lock.write(url)
        lock.flush()
        yield


def _create_node(children: ChildProcesses, name: str, state: Path) -> None:
    """Create the simulated driver's state file with its own program, which writes it atomically."""
    process_name = f"{name}-driver"
    create = ("create", "--path", str(state), "--board", BOARD, "--gpus", str(GPUS))
    children.start(process_name, "agents.simdriver", *create)
    process = children.running.pop(process_name)
    if process.wait(30) != 0:
        raise DemoFailed(
            f"{name}'s simulated driver cannot be created: see {children.log(process_name)}"
        )


def _is_ready(log: Path) -> bool:
    """Celery logs this once, when it accepts messages."""
    return " ready." in log.read_text("utf-8", "replace")
