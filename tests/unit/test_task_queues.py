"""Every task has a queue by its kind of work; a worker without `-Q` takes from all."""

from django.conf import settings

from portal.celery import app
from portal.task_queues import NAMES, ROUTES, SLOW, SWEEP, WHAT_IF
from scheduler.tasks import SWEEP_PAUSE_SECONDS
from scheduler.unsettled import SWEEPS_A_ROUND


def queue_of(task: str) -> str:
    return app.amqp.router.route({}, task)["queue"].name


def test_every_task_has_a_queue_of_its_own_choice():
    app.loader.import_default_modules()
    own = {name for name in app.tasks if not name.startswith("celery.")}
    assert set(ROUTES) == own
    assert {queue_of(task) for task in own} == set(NAMES)


def test_the_sweep_waits_behind_nothing_and_nobodys_job_behind_what_is_slow():
    assert [task for task in ROUTES if queue_of(task) == SWEEP] == ["scheduler.tasks.sweep"]
    assert {queue_of("scheduler.tasks.plan"), queue_of("scheduler.tasks.drive")}.isdisjoint(
        {SLOW, WHAT_IF, SWEEP}
    )
    assert queue_of("scheduler.tasks.plan") != queue_of("scheduler.tasks.drive")


def test_what_the_clock_starts_has_a_queue():
    assert {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()} <= set(ROUTES)


def test_no_task_of_the_clock_expires_behind_one_task_of_another_kind():
    """It would be thrown away again and again by a worker whose passes are long."""
    waits = [entry["options"]["expires"] for entry in settings.CELERY_BEAT_SCHEDULE.values()]
    assert min(waits) > settings.CELERY_TASK_TIME_LIMIT


def test_a_sweep_is_rung_often_enough_for_one_each_five_seconds_beside_a_step_of_a_pass():
    step_of_a_pass, aim = 2.0, 5.0
    period = settings.CELERY_BEAT_SCHEDULE["sweep"]["schedule"]
    assert period + step_of_a_pass <= aim
    # One that is rung in time is never skipped as too early, and after one that came late the next
    # one that is skipped leaves no longer gap.
    assert period + SWEEP_PAUSE_SECONDS <= aim
    assert SWEEPS_A_ROUND * period == 300


def test_a_worker_takes_from_all_unless_it_is_limited():
    assert set(app.amqp.queues.consume_from) == set(NAMES)
    # The rights of the broker's user in Redis (docker-compose.yml).
    assert all(name.startswith("celery") for name in NAMES)
