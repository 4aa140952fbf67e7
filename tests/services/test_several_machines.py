"""docs/several-machines.md, carried out: each host a network namespace, each server as deploy/ has
it, with TLS and passwords; the clock of one worker is wrong by minutes."""

import signal

import httpx
import pytest

from tests.environment import debian
from tests.services.hosts import NODE, running_hosts
from tests.services.stack import until

pytestmark = [
    pytest.mark.services,
    pytest.mark.machines,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
]

WRONG_CLOCKS = {"worker2": 7 * 60}
APPS = {"TESSERA_APPS_DOMAIN": "apps.test"}
# Says back what it is sent, and begins an answer to GET that has no end.
APP = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b".")
            time.sleep(0.1)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 18080), Handler).serve_forever()
"""
# By the database: who holds the lock of a lease, and that nobody came without TLS.
HOLDERS = """
    SELECT DISTINCT client_addr FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND application_name = 'tessera lease' AND granted
"""
PLAIN = """
    SELECT client_addr FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
    WHERE usename = 'tessera' AND NOT ssl
"""
NODE_EVENTS = "SELECT code FROM audit_event WHERE code LIKE '%lost%' OR code LIKE '%unreach%'"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if reason := debian.why_not("machines"):
        pytest.skip(reason)
    logs = tmp_path_factory.mktemp("logs")
    with running_hosts(logs, clocks=WRONG_CLOCKS, extra_env=APPS) as running:
        running.start_agent()
        until(lambda: len(running.rest("GET", "/gpus")["results"]) == 2, seconds=600, what=NODE)
        yield running


def run_job(hosts, text: str) -> None:
    job = hosts.submit("python3", "-c", f"print('{text}')")
    hosts.until_status(job, "succeeded", seconds=600)
    log = until(lambda: hosts.rest("GET", f"/jobs/{job}/logs"), what="its log")
    assert text in str(log)


def test_a_job_runs_and_its_log_is_read_while_a_workers_clock_is_wrong(hosts):
    run_job(hosts, "over tls")
    said = "so this worker plans and sweeps nothing"
    until(lambda: said in hosts.log("worker2", "worker"), seconds=600, what="worker2 to notice")
    # The other one goes on, and no node counts as silent.
    run_job(hosts, "by the right clock")
    assert said not in hosts.log("worker1", "worker")
    assert hosts.rest("GET", f"/nodes/{NODE}")["status"] == "online"
    assert hosts.query(NODE_EVENTS) == []
    assert hosts.machines["worker2"].address not in hosts.query(HOLDERS)


def test_nobody_gets_in_without_tls(hosts):
    assert hosts.query(PLAIN) == []
    machine, psql = hosts.machines["web1"], str(hosts.psql)
    for name, secret in (("sslmode=disable", "no encryption"), ("sslmode=require", "password")):
        words = (psql, f"host=db user=tessera dbname=tessera {name}", "-w", "-c", "SELECT 1")
        with pytest.raises(AssertionError, match=secret):
            machine.run(*words)
    with pytest.raises(AssertionError, match="rror"):
        machine.run("redis-cli", "-e", "-h", "redis", "ping")
    tls = ("--tls", "--cacert", "/etc/tessera/tls/ca.pem")
    with pytest.raises(AssertionError, match="NOAUTH"):
        machine.run("redis-cli", "-e", "-h", "redis", *tls, "ping")


def test_while_a_web_host_is_cut_off_the_other_one_serves(hosts):
    hosts.machines.cut("web1")
    try:
        run_job(hosts, "past the cut")
        assert all(hosts.call("GET", "/healthz").is_success for _ in range(10))
    finally:
        hosts.machines.join("web1")
    hosts.until_ready("web1")
    run_job(hosts, "together again")


def test_a_web_host_that_ends_loses_no_call_of_an_app_but_one_that_does_not_end(hosts):
    job = hosts.submit("python3", "-c", APP, apps=["web:18080"])
    hosts.until_status(job, "running", seconds=600)
    host = {"Host": f"web--j{job.removeprefix('J-')}.{APPS['TESSERA_APPS_DOMAIN']}"}
    visitor = host | {"Authorization": f"Bearer {token_for_apps(hosts)}"}

    def call() -> int:
        return hosts.call("POST", "/", headers=visitor, content=b"x").status_code

    until(lambda: call() == 200, what="the app")
    process, answers = hosts.running["web1"].process, []
    with httpx.Client(trust_env=False, timeout=60) as client:
        # So the last calls of this host take as long as they may.
        url = f"http://{hosts.machines['web1'].address}:8000/"
        endless = client.build_request("GET", url, headers=visitor | {"X-Forwarded-Proto": "https"})
        with hosts.machines["proxy"].network():
            assert client.send(endless, stream=True).status_code == 200
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            answers.append(call())
    hosts.start_web("web1")
    assert set(answers) == {200}, answers
    hosts.rest("POST", f"/jobs/{job}/cancel")


def token_for_apps(hosts) -> str:
    admin = hosts.run_program("tests.services.make_admin")["token"]
    body = {"name": "calls", "project": "vision", "days": 1}
    headers = {"Authorization": f"Token {admin}"}
    made = hosts.call("POST", "/api/v1/app-tokens", json=body, headers=headers)
    assert made.is_success, made.text
    return str(made.json()["token"])
