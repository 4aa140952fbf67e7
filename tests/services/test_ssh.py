"""`tessera ssh` and scp through the portal and a real agent, into a plain process."""

import hashlib
import os
import subprocess
import sys
import time

import pytest

from tests.environment.openssh import as_installed, unpack_server
from tests.services.cli_terminal import NEW_TOKEN, cli_environment
from tests.services.stack import ROOT, Stack

# On demand: a machine without a Debian mirror cannot have its server.
pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.on_demand]
MIB = 1 << 20
SIZE_MIB = 32
SECONDS = 300  # a bound for what never comes
UNTIL_STOPPED = "import signal; signal.pause()"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    return unpack_server(tmp_path_factory.mktemp("sshd"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory, server):
    var = tmp_path_factory.mktemp("ssh")
    with Stack(var=var, nodes=("node-a",), agent_wrapper=as_installed(var)) as running:
        yield running


@pytest.fixture
def job(stack, server):
    job = stack.submit([sys.executable, "-c", UNTIL_STOPPED], env=server.variables)
    stack.until_status(job, "running")
    yield job
    stack.call("POST", f"/jobs/{job}/cancel")


@pytest.fixture
def run(stack, tmp_path):
    """Runs a command as a person would, with this token or alice's."""

    def run(*words: str, token: str = "", stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        env = cli_environment(stack.url, token or stack.seeded["token"], tmp_path)
        return subprocess.run(
            words, cwd=ROOT, env=env, input=stdin, capture_output=True, timeout=SECONDS
        )

    return run


def tessera(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "portal.cli", *words)


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_scp_each_way_by_checksum_with_the_printed_configuration(stack, job, run, tmp_path):
    printed = run(*tessera("ssh", "--config", job))
    assert printed.returncode == 0, printed.stderr
    config = tmp_path / "config"
    config.write_bytes(printed.stdout)
    sent, back = tmp_path / "sent", tmp_path / "back"
    with sent.open("wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(MIB))
    begin = time.monotonic()
    up = run("scp", "-F", str(config), str(sent), f"{job}:model.bin")
    assert up.returncode == 0, up.stderr
    between = time.monotonic()
    down = run("scp", "-F", str(config), f"{job}:model.bin", str(back))
    assert down.returncode == 0, down.stderr
    end = time.monotonic()
    assert digest(back) == digest(sent)
    print(
        f"up {SIZE_MIB / (between - begin):.0f} MiB/s, down {SIZE_MIB / (end - between):.0f} MiB/s"
    )


def test_a_command_its_input_and_its_exit_code(stack, job, run):
    done = run(*tessera("ssh", job, "cat; echo $TESSERA_OUTPUT_DIR; exit 7"), stdin=b"typed\n")
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(b"typed\n/")
    missing = run(*tessera("ssh", job, "--rank", "5", "true"))
    assert missing.returncode == 3
    found = stack.call("GET", f"/jobs/{job}")
    assert found["status"] == "running"


def test_it_ends_with_the_right_to_it(stack, job, tmp_path):
    token = stack.python(NEW_TOKEN.format(name="alice", project=""))
    with subprocess.Popen(
        tessera("ssh", job, "echo begun; exec sleep 1000"),
        cwd=ROOT,
        env=cli_environment(stack.url, token, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout.readline() == b"begun\n", process.stderr.read()
            stack.python(
                "from portal.accounts.models import ApiToken\n"
                f"ApiToken.objects.filter(token_key={token[:15]!r}).delete()"
            )
            begin = time.monotonic()
            said = b""
            while b"You may not use this terminal any more" not in said:
                line = process.stderr.readline()
                assert line, said
                said += line
            assert time.monotonic() - begin < 5
            assert process.wait(SECONDS) == 255
        finally:
            process.kill()
