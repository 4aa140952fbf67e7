"""While the driver's library is closed for a reset, no other thread calls it."""

import threading

from agents.nvml import gate as gates
from agents.nvml.gate import CallGate


def test_a_thread_that_a_closed_gate_refused_is_refused_again():
    gate, answers = CallGate(), []

    def try_twice():
        for _ in range(2):
            with gate.entered_if_open() as is_open:
                answers.append(is_open)

    with gate.closed():
        thread = threading.Thread(target=try_twice)
        thread.start()
        thread.join()
    assert answers == [False, False]


def test_a_thread_that_was_refused_does_not_keep_the_gate_from_closing(monkeypatch):
    monkeypatch.setattr(gates, "CLOSE_SECONDS", 30)
    gate, closed = CallGate(), threading.Event()

    def close():
        with gate.closed():
            closed.set()

    def try_until_refused():
        is_open = True
        while is_open:
            with gate.entered_if_open() as is_open:
                pass

    threads = [threading.Thread(target=work) for work in (close, try_until_refused)]
    with gate.entered():
        for thread in threads:
            thread.start()
        threads[1].join(300)
    for thread in threads:
        thread.join(300)
    assert closed.is_set()
