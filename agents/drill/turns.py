"""Threads of an agent that run one at a time, in turn with the drill: one order of events."""

import threading
from collections.abc import Callable

from agents.loop.workers import InlineWorkers


class Turns:
    """Each thread runs until it waits, and then again at its next turn.

    `second_passes` is called instead if the agent's own loop waits for what only such a thread may
    wait for."""

    def __init__(self, second_passes: Callable[[], None]) -> None:
        self._second_passes = second_passes
        self._threads: list[_TurnThread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread until it waits. Raises what it raises."""
        thread = _TurnThread(work)
        self._threads.append(thread)
        thread.start()
        self._step(thread)

    def wait(self) -> None:
        """Until the caller's next turn; SystemExit, which ends a thread silently, if its agent is
        dead by then."""
        thread = threading.current_thread()
        if isinstance(thread, _TurnThread):
            thread.give_back()
        else:
            self._second_passes()

    def give_each(self) -> None:
        """Every thread has one turn, the oldest first. Raises what one of them raises."""
        for thread in list(self._threads):
            self._step(thread)

    def end(self) -> None:
        """The agent is dead, and its threads with it."""
        for thread in self._threads:
            thread.is_dead = True
            thread.take()
        self._threads.clear()

    def count(self) -> int:
        return len(self._threads)

    def _step(self, thread: "_TurnThread") -> None:
        thread.take()
        if thread.is_over:
            self._threads.remove(thread)
        if thread.error is not None:
            raise thread.error


class TurnWorkers(InlineWorkers):
    """Work in place, as in every drill, but for threads of their own, which take turns."""

    def __init__(self, on_done: Callable[[], None], turns: Turns) -> None:
        super().__init__(on_done)
        self._turns = turns

    def start_thread(self, work: Callable[[], None]) -> None:
        self._turns.start(work)


class _TurnThread(threading.Thread):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="pull", daemon=True)
        self.is_dead = self.is_over = False
        self.error: BaseException | None = None
        self._work = work
        self._mine, self._given_back = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        self._mine.acquire()
        try:
            self._work()
        except SystemExit:
            pass
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._given_back.release()

    def take(self) -> None:
        """Give the thread a turn, and return when it waits or is over."""
        if not self.is_over:
            self._mine.release()
            self._given_back.acquire()

    def give_back(self) -> None:
        self._given_back.release()
        self._mine.acquire()
        if self.is_dead:
            raise SystemExit
