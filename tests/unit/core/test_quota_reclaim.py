"""Who stops first when quota is taken back, and that nobody stops in vain."""

from dataclasses import replace

from scheduler.core.model.snapshot import Priority
from scheduler.core.quota.accounts import QuotaAccounts
from scheduler.core.quota.holders import board_of_gpus
from scheduler.core.quota.reclaim import reclaim_candidates, smallest_victim_set
from tests.support.quotas import a_nominal, a_run
from tests.support.snapshots import A30, H200, NOW, UNITS_PER_GPU, a_cluster, a_gpu, a_job, a_node

GPU = UNITS_PER_GPU
NODES = (a_node(*[a_gpu()] * 8), a_node(a_gpu(board=A30), name="n2"))
BOARDS = board_of_gpus(NODES)


def in_order(*running, quotas, gpus=1, project="p", board=H200):
    accounts = QuotaAccounts(replace(a_cluster(*NODES, quotas=quotas), running=running))
    job = a_job("99", project=project, gpus=gpus)
    found = reclaim_candidates(running, accounts, job, gpus * GPU, board, BOARDS)
    return [run.job.id for run in found]


def a_borrower(id, project="q", **fields):
    return a_run(id, project, preemptible=True, **fields)


MINE = a_nominal("p", 4, lend=4)


def test_who_is_most_above_its_quota_gives_first_and_each_only_what_is_above():
    running = [a_borrower(str(n), "q") for n in range(1, 5)]
    running += [a_borrower(str(n), "r") for n in range(5, 8)]
    quotas = (MINE, a_nominal("q", 1, used=4, borrow=9), a_nominal("r", 1, used=3, borrow=9))
    # q is 3 above and r 2: q, then both alike in turn, and one of each stays.
    assert in_order(*running, quotas=quotas) == ["4", "3", "7", "2", "6"]


def test_of_one_project_the_lowest_priority_stops_first_then_what_started_last():
    running = [
        a_borrower("1", priority=Priority.NORMAL),
        replace(a_borrower("2", priority=Priority.LOW), started_at=NOW - 500),
        replace(a_borrower("3", priority=Priority.LOW), started_at=NOW - 400),
        a_borrower("4", priority=Priority.HIGH),
    ]
    quotas = (MINE, a_nominal("q", 0, used=4, borrow=9))
    assert in_order(*running, quotas=quotas) == ["3", "2", "1", "4"]


def test_only_preemptible_work_above_nominal_on_this_board_that_does_not_stop_already():
    elsewhere = a_borrower("3", "q", gpu="n2/0")
    running = [
        a_run("1", "q"),
        replace(a_borrower("2", "q"), stopping=True),
        elsewhere,
        a_borrower("4", "r"),
        a_borrower("5", "free"),
        a_borrower("6", "p"),
        a_borrower("7", "q"),
    ]
    quotas = (MINE, a_nominal("q", 0, used=4, borrow=9), a_nominal("r", 1, used=1))
    assert in_order(*running, quotas=quotas) == ["7"]
    assert in_order(*running, quotas=quotas, board=A30) == ["3"]


def test_a_project_above_its_quota_of_the_model_gives_though_it_is_not_above_that_of_all():
    quotas = (
        a_nominal("p", 4, model="H200"),
        a_nominal("q", 1, used=2, borrow=4, model="H200"),
        a_nominal("q", 8, used=2),
    )
    assert in_order(a_borrower("1"), a_borrower("2"), quotas=quotas) == ["2"]


def test_who_would_borrow_itself_or_has_no_quota_takes_nothing_back():
    quotas = (MINE, a_nominal("q", 0, used=1, borrow=9))
    running = [a_borrower("1")]
    assert in_order(*running, quotas=quotas, gpus=4) == ["1"]
    assert in_order(*running, quotas=quotas, gpus=5) == []
    assert in_order(*running, quotas=quotas, project="none") == []


def test_those_who_need_not_go_are_put_back():
    small, large = a_borrower("1"), a_borrower("2", gpus=3)

    def enough(some):
        return sum(len(r.replicas[0].devices) for r in some) >= 3

    assert smallest_victim_set([small, large], enough) == (large,)
    assert smallest_victim_set([small], enough) == ()
    assert smallest_victim_set([], lambda some: True) == ()
