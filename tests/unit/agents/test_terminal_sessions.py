"""Sessions of terminals with a shell that the test plays: cuts, attachments, ends, slow clients."""

import asyncio
from dataclasses import replace

import pytest

from agents.contract.terminal import TerminalEnd
from agents.contract.tunnel import StreamRefusal
from agents.terminals import node_terminals
from agents.terminals.node_terminals import NodeTerminals
from agents.terminals.output_ring import OutputRing
from agents.tunnel.link import OpenRefused, StreamReset
from tests.unit.agents.terminal_clients import a_target, node

AGAIN = a_target(is_new=False)


class PlayedShell:
    """Prints what the test says, and keeps what was typed."""

    def __init__(self):
        self.printed = asyncio.Queue(1)
        self.typed = asyncio.Queue()
        self.sizes = asyncio.Queue()
        self.closed = asyncio.Event()
        self.code = 0

    async def read(self):
        return await self.printed.get()

    async def write(self, data):
        self.typed.put_nowait(data)

    async def resize(self, columns, rows):
        self.sizes.put_nowait((columns, rows))

    async def exit_code(self):
        return self.code

    async def close(self):
        self.closed.set()


class Stage:
    """The shells that were opened, in a node whose runtime opens played ones."""

    def __init__(self, keep_seconds=60.0):
        self.shells = []
        self.terminals = NodeTerminals(self.open, keep_seconds=keep_seconds)

    def open(self, target):
        self.shells.append(PlayedShell())
        return self.shells[-1]


def played(test, **stage):
    """Run a coroutine function with a stage and its `attach`."""

    async def run():
        staged = Stage(**stage)
        async with node(staged.terminals) as attach:
            await test(staged, attach)

    asyncio.run(run())


def test_what_is_typed_arrives_and_what_is_printed_is_shown():
    async def test(stage, attach):
        client = await attach(a_target(columns=100, rows=30))
        (shell,) = stage.shells
        assert await shell.sizes.get() == (100, 30)
        await client.type("ls\n")
        assert await shell.typed.get() == b"ls\n"
        await shell.printed.put(b"a  b  c")
        await client.until(b"a  b  c")
        await client.resize(132, 50)
        assert await shell.sizes.get() == (132, 50)
        shell.code = 7
        await shell.printed.put(b"")
        assert await client.until_end() == (TerminalEnd.EXITED, 7)
        await shell.closed.wait()
        with pytest.raises(OpenRefused) as refused:
            await attach(AGAIN)
        assert refused.value.why is StreamRefusal.TERMINAL_GONE

    played(test)


def test_after_a_cut_the_output_goes_on_where_the_client_was():
    async def test(stage, attach):
        client = await attach(a_target())
        (shell,) = stage.shells
        await shell.printed.put(b"before ")
        await client.until(b"before ")
        client.stream.abort()
        # Nobody reads it now, and it does not wait for one.
        for word in (b"mean", b"while ", b"lost "):
            await shell.printed.put(word)
        client = await attach(replace(AGAIN, received=client.received))
        assert await client.until(b"lost ") == b"meanwhile lost "
        assert client.begun_at == len(b"before ")
        # A page that was loaded again has nothing.
        client = await attach(AGAIN)
        assert await client.until(b"lost ") == b"before meanwhile lost "
        assert len(stage.shells) == 1

    played(test)


def test_a_client_that_misses_more_than_is_kept_begins_later(monkeypatch):
    monkeypatch.setattr("agents.terminals.session.OutputRing", lambda: OutputRing(10))

    async def test(stage, attach):
        client = await attach(a_target())
        (shell,) = stage.shells
        await shell.printed.put(b"first")
        await client.until(b"first")
        client.stream.abort()
        for word in (b"0123456789", b"abcde", b"f", b"g"):
            await shell.printed.put(word)
        client = await attach(replace(AGAIN, received=client.received))
        while client.received < 22:
            await client.step()
        assert client.begun_at >= 11
        assert client.shown == b"first0123456789abcdefg"[client.begun_at :]

    played(test)


def test_the_shell_waits_for_a_client_that_does_not_read():
    async def test(stage, attach):
        client = await attach(a_target())
        (shell,) = stage.shells
        data = b"x" * (32 << 10)
        taken = 0
        # Windows are finite: at some point nothing more is taken.
        while True:
            try:
                async with asyncio.timeout(0.2):
                    await shell.printed.put(data)
                taken += len(data)
            except TimeoutError:
                break
        assert taken < 2 << 20
        while client.received < taken:
            await client.step()
        async with asyncio.timeout(10):
            await shell.printed.put(b"end")
        await client.until(b"end")

    played(test)


def test_a_second_client_takes_the_terminal_and_the_first_is_told():
    async def test(stage, attach):
        first = await attach(a_target())
        second = await attach(AGAIN)
        assert await first.until_end() == (TerminalEnd.REPLACED, 0)
        (shell,) = stage.shells
        await second.type("mine")
        assert await shell.typed.get() == b"mine"

    played(test)


def test_nobody_comes_back_in_time():
    async def test(stage, attach):
        client = await attach(a_target())
        (shell,) = stage.shells
        await shell.printed.put(b"hello")
        await client.until(b"hello")
        client.stream.abort()
        await shell.closed.wait()

    played(test, keep_seconds=0.05)


def test_what_is_printed_for_nobody_keeps_no_terminal():
    async def test(stage, attach):
        client = await attach(a_target())
        (shell,) = stage.shells
        await shell.sizes.get()
        client.stream.abort()

        async def print_on():
            while True:
                await shell.printed.put(b"tick ")
                await asyncio.sleep(0.01)

        printing = asyncio.ensure_future(print_on())
        async with asyncio.timeout(20):
            await shell.closed.wait()
        printing.cancel()

    played(test, keep_seconds=0.1)


def test_the_end_of_the_shell_waits_for_a_client_that_was_cut():
    async def test(stage, attach):
        client = await attach(a_target())
        (shell,) = stage.shells
        await shell.sizes.get()
        client.stream.abort()
        shell.code = 3
        await shell.printed.put(b"last words")
        await shell.printed.put(b"")
        client = await attach(AGAIN)
        assert await client.until_end() == (TerminalEnd.EXITED, 3)
        assert client.shown == b"last words"
        await shell.closed.wait()

    played(test)


def test_it_closes_when_nothing_happens_for_the_idle_time():
    async def test(stage, attach):
        # The least idle time that the contract has.
        client = await attach(a_target(idle_seconds=1))
        assert await client.until_end() == (TerminalEnd.IDLE, 0)
        await stage.shells[0].closed.wait()

    played(test)


def test_hanging_up_ends_it_at_once():
    async def test(stage, attach):
        client = await attach(a_target())
        await client.hang_up()
        assert await client.until_end() == (TerminalEnd.EXITED, 129)
        await stage.shells[0].closed.wait()

    played(test)


def test_the_end_of_the_agent_ends_all_and_says_so():
    async def test(stage, attach):
        client = await attach(a_target())
        await stage.terminals.close()
        assert (await client.until_end())[0] is TerminalEnd.AGENT_STOPPED
        assert stage.shells[0].closed.is_set()

    played(test)


def test_garbage_ends_the_client_and_not_the_terminal():
    async def test(stage, attach):
        client = await attach(a_target())
        await client.stream.write(b"\xff\x00\x01x")
        with pytest.raises(StreamReset):
            while await client.step():
                pass
        client = await attach(AGAIN)
        await stage.shells[0].printed.put(b"still here")
        await client.until(b"still here")

    played(test)


def test_a_replica_and_a_node_have_so_many_and_the_next_is_refused(monkeypatch):
    monkeypatch.setattr(node_terminals, "MAX_OF_REPLICA", 2)
    monkeypatch.setattr(node_terminals, "MAX_OF_NODE", 3)

    async def test(stage, attach):
        async def refused(**fields):
            with pytest.raises(OpenRefused) as error:
                await attach(a_target(**fields))
            return error.value.why

        first = await attach(a_target(terminal="1" * 32))
        await attach(a_target(terminal="2" * 32))
        assert await refused(terminal="3" * 32) is StreamRefusal.TOO_MANY_TERMINALS
        await attach(a_target(rank=1))
        assert await refused(rank=2) is StreamRefusal.TOO_MANY_TERMINALS
        await first.hang_up()
        await first.until_end()
        await stage.shells[0].closed.wait()
        await asyncio.sleep(0)
        await attach(a_target(terminal="3" * 32))

    played(test)


def test_a_runtime_that_fails_is_a_refusal_and_leaves_room():
    async def test(stage, attach):
        def broken(target):
            raise RuntimeError("no engine")

        stage.terminals._open_terminal = broken
        with pytest.raises(OpenRefused) as refused:
            await attach(a_target())
        assert refused.value.why is StreamRefusal.FAILED
        stage.terminals._open_terminal = stage.open
        await attach(a_target())

    played(test)
