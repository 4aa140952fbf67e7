"""Many coroutine agents in one process: run as a program, spoken to in lines of JSON.

The first line is the settings: `{"url", "join": {name: token}, "gpus", "run_seconds",
"probe_every"}`. Each following line is a question and gets one line back: `state` (how many nodes
there are, and how many hold a call), `tally` (everything since the last `tally`).
"""

import asyncio
import json
import sys
from typing import Any

from tests.benchmarks.control_plane.coroutine_agent import CoroutineAgent, Tally
from tests.benchmarks.control_plane.node_document import node_document
from tests.benchmarks.control_plane.wire import HttpClient

# So many nodes enrol at the same time.
ENROLLING = 16


async def main(settings: dict[str, Any]) -> None:
    tally, client = Tally(), HttpClient(settings["url"])
    document = node_document(settings["gpus"])
    probe_every = settings["probe_every"]
    agents = [
        CoroutineAgent(
            name,
            client,
            document,
            tally,
            run_seconds=settings["run_seconds"],
            probes=bool(probe_every) and number % probe_every == 0,
        )
        for number, name in enumerate(settings["join"])
    ]
    running = asyncio.gather(*_started(agents, settings["join"]))
    answering = asyncio.create_task(_answer_lines(agents, tally))
    # Ends with the input, or with the first error of an agent that is a bug.
    ending: set[asyncio.Future[Any]] = {running, answering}
    done, _ = await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def _started(agents: list[CoroutineAgent], join: dict[str, str]) -> list[asyncio.Task[None]]:
    entrance = asyncio.Semaphore(ENROLLING)

    async def life(agent: CoroutineAgent) -> None:
        async with entrance:
            await agent.enrol(join[agent.name])
        await agent.run()

    return [asyncio.create_task(life(agent)) for agent in agents]


async def _answer_lines(agents: list[CoroutineAgent], tally: Tally) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.strip():
            case "state":
                held = sum(agent.is_held for agent in agents)
                answer: dict[str, Any] = {"nodes": len(agents), "held": held}
            case "tally":
                answer = _taken(tally)
            case word:
                raise ValueError(f"no such question: {word}")
        print(json.dumps(answer), flush=True)


def _taken(tally: Tally) -> dict[str, Any]:
    answer = {
        "replicas": [(one.job, one.started_at, one.ended_at) for one in tally.replicas],
        "report_ms": tally.report_ms[:],
        "calls": dict(tally.calls),
        "failures": dict(tally.failures),
    }
    for counted in (tally.replicas, tally.report_ms, tally.calls, tally.failures):
        counted.clear()
    return answer


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.readline())))
