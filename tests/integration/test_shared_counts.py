"""Limits hold over all processes together, and where Redis is away everything is still answered."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from django.core.cache import cache, caches
from django.test import Client

from portal import shared_cache
from portal.file_cache import LockedFileCache
from portal.shared_cache import RedisWithLocalFallback, cache_settings
from tests.integration.calling import let_through
from tests.support.rows import a_user

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, CALLS, MOST = 2, 80, 100


@pytest.fixture
def redis_counts(settings, redis_server, monkeypatch):
    """Django counts in a database of its own of a real Redis."""
    monkeypatch.setattr(RedisWithLocalFallback, "away_until", 0.0)
    settings.CACHES = cache_settings(redis_server.url(8), Path())
    cache.clear()
    yield redis_server
    shared_cache._client.cache_clear()


@pytest.fixture
def file_counts(settings, tmp_path):
    settings.CACHES = cache_settings("", tmp_path)


def in_processes(var: Path, **environ: str) -> int:
    """How many of all processes' calls were let through."""
    (var / "static").mkdir(exist_ok=True)
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_VAR": str(var),
        "PYTHONPATH": str(ROOT),
        **environ,
    }
    command = [sys.executable, "-m", "tests.integration.calling", str(CALLS), str(MOST)]
    running = [
        subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    return sum(int(process.communicate()[0]) for process in running)


def test_processes_of_one_machine_count_together_in_files(tmp_path):
    assert in_processes(tmp_path) == MOST


@pytest.mark.services
def test_processes_count_together_in_redis(tmp_path, redis_counts):
    url = redis_counts.url(8)
    assert in_processes(tmp_path, TESSERA_REDIS_URL=url) == MOST


@pytest.mark.services
@pytest.mark.django_db
def test_while_redis_is_away_calls_are_answered_and_this_process_counts(redis_counts):
    assert let_through(5, 4) == 4
    redis_counts.kill()
    try:
        # Nobody knows what was counted in Redis: it begins anew, and has an end again.
        assert let_through(5, 3) == 3
    finally:
        redis_counts.start()


@pytest.mark.services
def test_redis_is_asked_again_after_a_while(redis_counts, monkeypatch):
    redis_counts.kill()
    cache.set("who", "this process", 60)
    redis_counts.start()
    monkeypatch.setattr(RedisWithLocalFallback, "away_until", 0.0)
    assert cache.get("who") is None
    cache.set("who", "everybody", 60)
    assert cache.get("who") == "everybody"


@pytest.mark.services
@pytest.mark.django_db
def test_wrong_passwords_are_counted_in_redis(redis_counts):
    """By whichever process: each of these clients could have met another one."""
    a_user("olga")
    right = {"username": "olga", "password": "pw"}
    for _ in range(5):
        Client().post("/sign-in/", right | {"password": "not hers"})
    assert "Too many failed attempts" in Client().post("/sign-in/", right).content.decode()
    cache.clear()
    assert Client().post("/sign-in/", right).status_code == 302


def test_threads_count_one_by_one_in_files(file_counts):
    cache.add("n", 0, 60)
    threads = [threading.Thread(target=lambda: [cache.incr("n") for _ in range(20)]) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("n") == 60


def test_a_count_in_files_ends_when_it_was_said_to(file_counts):
    counts = caches["default"]
    assert isinstance(counts, LockedFileCache)
    cache.add("n", 0, 60)
    cache.incr("n")
    entry = counts._entry("n", None)
    assert entry is not None and entry[0] is not None
    assert 0 < entry[0] - time.time() <= 60
    cache.touch("n", 0)
    with pytest.raises(ValueError, match="There is no"):
        cache.incr("n")


@pytest.mark.django_db
def test_a_call_that_was_turned_away_does_not_count(file_counts):
    assert let_through(9, 4) == 4
    assert let_through(9, 5) == 1


def test_files_hold_no_pickle_and_what_is_no_count_is_a_miss(file_counts, tmp_path):
    cache.set("n", 7, 60)
    (path,) = (tmp_path / "counts").glob("*.json")
    ends, value = path.read_text().split("\n")
    assert (float(ends) > time.time(), value) == (True, "7")
    for text in ("x", "", "null\n[[]]", f"{ends}\n" + "[" * 100_000):
        path.write_text(text)
        assert cache.get("n", "none") == "none"
        assert cache.add("n", 1, 60)


def test_what_decides_who_may_sign_in_stays_in_the_process(file_counts, tmp_path):
    cache.set("saml.metadata.https://idp.example.sso", {"idp": {"x509cert": "ours"}}, 60)
    assert cache.get("saml.metadata.https://idp.example.sso") == {"idp": {"x509cert": "ours"}}
    assert list(tmp_path.rglob("*.json")) == []


def test_counters_that_have_ended_do_not_fill_the_folder(file_counts, tmp_path, monkeypatch):
    monkeypatch.setattr(caches["default"], "_clean_above", 4)
    for number in range(4):
        cache.set(f"over-{number}", 1, 0)
    for number in range(3):
        cache.set(f"live-{number}", 1, 60)
    assert len(list((tmp_path / "counts").glob("*.json"))) == 3
