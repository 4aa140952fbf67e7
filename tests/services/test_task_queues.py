"""Kinds of work do not wait for each other: a worker takes from the queues in turn."""

import pytest

from portal.celery import app
from portal.filesystem_broker import Transport
from portal.task_queues import DRIVE, NAMES, PLAN, SWEEP

pytestmark = pytest.mark.services

BACKLOG = 30


@pytest.fixture(params=["redis", "filesystem"])
def broker(request, tmp_path):
    """A connection to a broker of the test's own."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_server").url(11)
        with app.connection_for_read(url) as connection:
            yield connection
        return
    for name in ("queue", "control"):
        (tmp_path / name).mkdir()
    folder, control = str(tmp_path / "queue"), str(tmp_path / "control")
    options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": control}
    with app.connection_for_read("filesystem://", transport_options=options) as connection:
        assert isinstance(connection.transport, Transport)
        yield connection


def test_neither_a_pass_nor_the_sweep_waits_behind_a_backlog(broker):
    for queue in (*[DRIVE] * BACKLOG, *[PLAN] * BACKLOG, SWEEP):
        with broker.Producer() as producer:
            producer.publish({}, routing_key=queue, declare=[app.amqp.queues[queue](broker)])
    taken = []

    def take(_, message):
        taken.append(message.delivery_info["routing_key"])
        message.ack()

    queues = [app.amqp.queues[name] for name in NAMES]
    with broker.Consumer(queues, callbacks=[take]) as consumer:
        # As a worker of one process: the next message is taken when this one is done.
        consumer.qos(prefetch_count=1)
        while len(taken) < 2 * BACKLOG + 1:
            broker.drain_events(timeout=300)
    assert SWEEP in taken[:4], taken
    assert PLAN in taken[:4], taken
    assert DRIVE in taken[:4], taken
    assert {taken.count(PLAN), taken.count(DRIVE)} == {BACKLOG}
