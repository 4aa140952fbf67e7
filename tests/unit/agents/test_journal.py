"""What was written down survives: a new start, a torn write, a killed agent. Fences never fall."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from agents.combinations.sentences import without_nccl
from agents.combinations.shape import GangShape
from agents.contract.calls import EventType
from agents.contract.documents import DesiredDocument, SliceKind
from agents.facts.ends import RunRecord, StopRecord
from agents.facts.failures import ReplicaFailure
from agents.state.journal import MAX_EVENTS_PER_CALL, Journal, JournalError, wire_text
from tests.unit.agents.documents import a_desired, a_replica

STARTED = EventType.AGENT_STARTED
RUN = RunRecord("boot-1", 120)
WHY = without_nccl(GangShape(frozenset((SliceKind.MIG,)), replicas=4))
REFUSED = ReplicaFailure("nccl_on_mig", WHY.text, WHY)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "var" / "journal.sqlite3"


@pytest.fixture
def opened(path):
    """Open the journal again and again; all are closed at the end."""
    journals = []

    def open_it(where=path):
        journals.append(Journal(where))
        return journals[-1]

    yield open_it
    for journal in journals:
        journal.close()


def sentences(journal):
    return [event.sentence for event in journal.unsent_events()]


def killed(path, where):
    """The files as a killed agent leaves them: the journal is still open, nothing is tidied up."""
    shutil.copytree(path.parent, where)
    return where / path.name


def test_a_new_journal_knows_nothing(opened):
    journal = opened()
    assert journal.desired() is None
    assert (journal.unsent_events(), journal.fences(), journal.failures()) == ((), {}, {})
    assert (journal.started_replicas(), journal.shipped_offsets(), journal.fact("any")) == (
        frozenset(),
        {},
        "",
    )


def test_everything_is_there_after_a_reopen(opened):
    journal = opened()
    journal.record_event(EventType.SLICE_CREATED, "made", replica="r-1", fence=7, data={"gpu": "0"})
    journal.store_desired(a_desired())
    journal.record_failure("r-1", ReplicaFailure("image_pull", "no such image"))
    journal.record_failure("r-3", REFUSED)
    journal.record_start("r-2", RUN)
    journal.record_shipped({"r-2": 512})
    journal.record_stop("r-2", StopRecord("lease_over", 17.5))
    journal.record_stop("r-2", StopRecord("", 18.5))
    journal.record_own_end("r-2")
    journal.store_fact("boot", "b-1")
    before = journal.unsent_events()
    journal.close()

    again = opened()
    assert again.unsent_events() == before
    assert (before[0].replica, before[0].fence, before[0].data) == ("r-1", 7, {"gpu": "0"})
    assert again.desired() == a_desired()
    assert again.fences() == {"j-1": 7}
    image = ReplicaFailure("image_pull", "no such image")
    assert again.failures() == {"r-1": image, "r-3": REFUSED}
    assert (again.started_replicas(), again.shipped_offsets()) == (frozenset({"r-2"}), {"r-2": 512})
    assert (again.runs(), again.own_ends()) == ({"r-2": RUN}, frozenset({"r-2"}))
    assert again.stops() == {"r-2": StopRecord("lease_over", 17.5)}, "the first cause wins"
    assert again.fact("boot") == "b-1"


def test_a_killed_agent_loses_nothing_that_was_written(opened, path, tmp_path):
    journal = opened()
    journal.store_desired(a_desired())
    journal.record_start("r-1", RUN)
    journal.record_event(STARTED, "in contact")
    again = opened(killed(path, tmp_path / "after"))
    assert (again.desired(), again.started_replicas()) == (a_desired(), {"r-1"})
    assert sentences(again) == ["in contact"]


@pytest.mark.parametrize("torn", [1, 100, 3_000])
def test_a_torn_last_write_costs_only_itself(opened, path, tmp_path, torn):
    journal = opened()
    journal.record_event(STARTED, "first")
    journal.record_event(STARTED, "second")
    wal = path.with_name(path.name + "-wal")
    whole = wal.stat().st_size
    journal.record_event(STARTED, "third")
    assert wal.stat().st_size - whole > torn

    left = killed(path, tmp_path / "after")
    with left.with_name(left.name + "-wal").open("r+b") as file:
        file.truncate(wal.stat().st_size - torn)
    again = opened(left)
    assert sentences(again) == ["first", "second"]
    again.record_event(STARTED, "fourth")
    assert sentences(again) == ["first", "second", "fourth"]


def test_a_write_that_is_refused_leaves_everything_as_it_was(opened):
    journal = opened()
    journal.store_desired(a_desired())
    twice = DesiredDocument(node="n-1", revision=9, replicas=(a_replica(fence=1 << 63),))
    with pytest.raises(OverflowError):
        journal.store_desired(twice)
    assert (journal.desired(), journal.fences()) == (a_desired(), {"j-1": 7})
    journal.record_event(STARTED, "still writing")
    assert sentences(journal) == ["still writing"]


@pytest.mark.parametrize(
    "content", [b"this is no journal" * 400, b"SQLite format 3\0" + b"\0" * 99]
)
def test_a_corrupt_file_is_told_in_one_sentence_that_names_it(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(JournalError) as caught:
        Journal(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content, "what may still be rescued is left alone"


def test_damage_in_the_middle_is_found_at_the_start_not_later(opened, path):
    journal = opened()
    for number in range(500):
        journal.store_fact(f"fact {number}", "x" * 100)
    journal.close()
    whole = path.read_bytes()
    pages = len(whole) // 4_096
    damaged = whole[: 4_096 * (pages // 2)] + b"\xff" * 8_192
    path.write_bytes(damaged + whole[len(damaged) :])
    with pytest.raises(JournalError) as caught:
        Journal(path)
    assert "\n" not in str(caught.value)


def test_a_path_that_cannot_be_opened_is_told_in_one_sentence(path):
    path.mkdir(parents=True)
    with pytest.raises(JournalError, match=r"journal\.sqlite3"):
        Journal(path)


def test_a_fence_never_falls_whatever_document_comes_after(opened):
    journal = opened()
    fences = []
    for revision, fence in [(1, 3), (2, 9), (1, 3), (3, 8)]:
        journal.store_desired(a_desired(revision=revision, replicas=(a_replica(fence=fence),)))
        fences.append(journal.fences()["j-1"])
    assert fences == [3, 9, 9, 9]
    journal.store_desired(a_desired(replicas=()))
    journal.forget_replica("r-1")
    journal.close()
    assert opened().fences() == {"j-1": 9}


def test_each_job_has_its_own_fence_and_the_highest_of_its_replicas_counts(opened):
    journal = opened()
    replicas = tuple(
        a_replica(id=f"r-{n}", job=job, fence=fence)
        for n, (job, fence) in enumerate([("j-1", 4), ("j-2", 6), ("j-1", 2)])
    )
    journal.store_desired(a_desired(replicas=replicas))
    assert journal.fences() == {"j-1": 4, "j-2": 6}


def test_events_are_numbered_once_for_ever(opened):
    journal = opened()
    for word in "ab":
        journal.record_event(STARTED, word)
    journal.acknowledge_events(2)
    journal.close()
    again = opened()
    again.record_event(STARTED, "c")
    assert [(e.seq, e.sentence) for e in again.unsent_events()] == [(3, "c")]


def test_a_new_journal_goes_on_above_what_the_portal_has_seen(opened):
    journal = opened()
    journal.skip_to(41)
    journal.record_event(STARTED, "first here")
    journal.skip_to(7)
    journal.record_event(STARTED, "second here")
    assert [event.seq for event in journal.unsent_events()] == [42, 43]


def test_only_what_is_acknowledged_is_dropped_and_calls_stay_small(opened):
    journal = opened()
    for number in range(MAX_EVENTS_PER_CALL + 2):
        journal.record_event(STARTED, str(number))
    assert len(journal.unsent_events()) == MAX_EVENTS_PER_CALL
    journal.acknowledge_events(MAX_EVENTS_PER_CALL)
    assert sentences(journal) == [str(MAX_EVENTS_PER_CALL), str(MAX_EVENTS_PER_CALL + 1)]


def test_a_failure_of_an_older_agent_has_no_message(opened, path):
    opened().record_failure("r-1", REFUSED)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE failure_messages")
    assert opened().failures() == {"r-1": ReplicaFailure("nccl_on_mig", WHY.text)}


def test_forgetting_a_replica_leaves_the_others_alone(opened, path):
    journal = opened()
    for replica in ("r-1", "r-2"):
        journal.record_failure(replica, REFUSED)
        journal.record_start(replica, RUN)
        journal.record_shipped({replica: 1})
        journal.record_stop(replica, StopRecord("lease_over", 1.0))
        journal.record_own_end(replica)
    journal.forget_replica("r-1")
    assert (set(journal.failures()), journal.started_replicas()) == ({"r-2"}, {"r-2"})
    assert journal.shipped_offsets() == {"r-2": 1}
    assert set(journal.runs()) == set(journal.stops()) == journal.own_ends() == {"r-2"}
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT replica FROM failure_messages").fetchall() == [("r-2",)]


def test_a_change_is_written_down_before_and_ticked_off_after(opened, path):
    journal = opened()
    one, two = journal.record_intent("prepare r-1"), journal.record_intent("prepare r-2")
    journal.complete_intent(one)
    assert intents(path) == [(one, "prepare r-1", 0), (two, "prepare r-2", 0)]
    journal.record_own_end("r-1")
    assert intents(path) == [(one, "prepare r-1", 1), (two, "prepare r-2", 0)], (
        "with the next change"
    )


def intents(path):
    """As another process reads them, and whether each is done."""
    with closing(sqlite3.connect(path)) as reading:
        return reading.execute("SELECT id, what, done IS NOT NULL FROM intents").fetchall()


def test_an_answer_that_acknowledges_nothing_new_writes_nothing(opened, path):
    journal = opened()
    journal.record_event(STARTED, "one")
    journal.acknowledge_events(1)
    wal = path.with_name(f"{path.name}-wal")
    size = wal.stat().st_size
    journal.acknowledge_events(1)
    assert wal.stat().st_size == size
    journal.record_event(STARTED, "two")
    assert sentences(journal) == ["two"]
    assert wal.stat().st_size > size


@pytest.mark.parametrize("dirty", ["a\nb\x00c", "a\ud800b", "é" * 5_000])
def test_a_sentence_is_made_fit_for_the_wire(opened, dirty):
    journal = opened()
    journal.record_event(STARTED, dirty)
    (event,) = journal.unsent_events()
    assert event.sentence == wire_text(dirty)
    assert event.sentence.isprintable() and len(event.sentence.encode()) <= 4 * 1_000
    assert len(event.sentence) <= 1_000


SECRET = "hf_a_token_of_a_job"


def bytes_of(path):
    """All that is on the disk, as a thief would read it."""
    return b"".join(at.read_bytes() for at in sorted(path.parent.iterdir()))


def with_a_secret(name="r-1"):
    # Long, so that it takes pages of its own, which an overwrite does not reach by itself.
    return a_replica(id=name, job=name, env={"HF_TOKEN": SECRET, "REST": "x" * 20_000})


def test_the_environment_of_a_job_is_gone_once_it_is_no_longer_desired(opened, path):
    journal = opened()
    journal.store_desired(a_desired(replicas=(with_a_secret(),), revision=1))
    assert SECRET.encode() in bytes_of(path)
    journal.store_desired(a_desired(replicas=(), revision=2))
    assert SECRET.encode() not in bytes_of(path)


def test_the_environment_of_an_ended_replica_is_gone_before_the_portal_hears_of_it(opened, path):
    journal = opened()
    other = a_replica(id="r-2", job="j-2", env={"NAME": "value"})
    journal.store_desired(a_desired(replicas=(with_a_secret(), other), revision=1))
    journal.forget_environments(frozenset({"r-1", "r-9"}))
    assert SECRET.encode() not in bytes_of(path)
    kept = {replica.id: replica.env for replica in journal.desired().replicas}
    assert kept == {"r-1": {}, "r-2": {"NAME": "value"}}
    # Nothing is left to forget, so nothing is written.
    before = bytes_of(path)
    journal.forget_environments(frozenset({"r-1"}))
    assert bytes_of(path) == before


class FullDisk:
    """A connection whose next COMMIT fails."""

    def __init__(self, db):
        self.db, self.is_full = db, True

    def __getattr__(self, name):
        return getattr(self.db, name)

    def execute(self, statement, *values):
        if statement == "COMMIT" and self.is_full:
            self.is_full = False
            raise sqlite3.OperationalError("disk is full")
        return self.db.execute(statement, *values)


def test_an_environment_whose_deletion_failed_is_deleted_at_the_next_try(opened, path):
    journal = opened()
    journal.store_desired(a_desired(replicas=(with_a_secret(),), revision=1))
    journal._db = FullDisk(journal._db)
    with pytest.raises(sqlite3.OperationalError):
        journal.forget_environments(frozenset({"r-1"}))
    assert SECRET.encode() in bytes_of(path)
    journal.forget_environments(frozenset({"r-1"}))
    assert SECRET.encode() not in bytes_of(path)


def test_a_killed_agent_leaves_no_environment_to_the_next_one(opened, path, tmp_path):
    """Killed between the write and the checkpoint: the WAL still has the old document."""
    journal = opened()
    journal.store_desired(a_desired(replicas=(with_a_secret(),), revision=1))
    journal._must_checkpoint = False
    with journal._write() as db:
        db.execute("DELETE FROM facts WHERE name = 'desired'")
    left = killed(path, tmp_path / "left")
    assert SECRET.encode() in bytes_of(left)
    opened(left)
    assert SECRET.encode() not in bytes_of(left)


def test_a_journal_of_an_earlier_version_loses_what_it_had_deleted(opened, path):
    path.parent.mkdir()
    db = sqlite3.connect(path)
    db.execute("PRAGMA secure_delete=OFF")
    db.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    db.execute("INSERT INTO facts VALUES ('desired', ?)", (SECRET + "x" * 20_000,))
    db.commit()
    db.execute("DELETE FROM facts")
    db.commit()
    db.close()
    assert SECRET.encode() in bytes_of(path)
    opened()
    assert SECRET.encode() not in bytes_of(path)


def test_the_journal_and_the_files_beside_it_are_its_users_alone(opened, path):
    opened().store_desired(a_desired(replicas=(with_a_secret(),)))
    assert {at.stat().st_mode & 0o777 for at in path.parent.iterdir()} == {0o600}
