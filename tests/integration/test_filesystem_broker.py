"""The broker in a folder: every message once and whole, with writers and readers at once."""

import threading
from queue import Empty

import pytest
from kombu import Connection

from portal.celery import app
from portal.filesystem_broker import Transport

WRITERS, EACH = 4, 150


@pytest.fixture
def options(tmp_path):
    for name in ("queue", "control"):
        (tmp_path / name).mkdir()
    folder = str(tmp_path / "queue")
    control = str(tmp_path / "control")
    return {"data_folder_in": folder, "data_folder_out": folder, "control_folder": control}


def connected(options) -> Connection:
    return Connection(transport=Transport, transport_options=options)


def test_celery_uses_it_where_the_broker_is_a_folder():
    with app.connection("filesystem://") as connection:
        assert isinstance(connection.transport, Transport)


def test_every_message_arrives_once_and_whole_and_in_order_of_each_writer(options, tmp_path):
    def write(writer: int) -> None:
        with connected(options) as connection:
            queue = connection.SimpleQueue("bells")
            for number in range(EACH):
                queue.put({"writer": writer, "number": number, "filling": "x" * 4_000})
            queue.close()

    writers = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    with connected(options) as connection:
        queue = connection.SimpleQueue("bells")
        for writer in writers:
            writer.start()
        found = [queue.get(timeout=300) for _ in range(WRITERS * EACH)]
        for message in found:
            message.ack()
        with pytest.raises(Empty):
            queue.get_nowait()
        queue.close()
    for writer in writers:
        writer.join()
    for writer in range(WRITERS):
        numbers = [m.payload["number"] for m in found if m.payload["writer"] == writer]
        assert numbers == list(range(EACH))
    assert [*(tmp_path / "queue").iterdir()] == []


def test_a_message_that_is_being_written_is_not_seen(options, tmp_path):
    (tmp_path / "queue" / "0_half.part").write_text('{"body": "')
    with connected(options) as connection:
        queue = connection.SimpleQueue("bells")
        with pytest.raises(Empty):
            queue.get_nowait()
        queue.close()
