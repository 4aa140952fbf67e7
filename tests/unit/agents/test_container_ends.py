"""How containers have ended: asked for once, unless the engine may have more to say."""

from agents.runtime.docker_ends import ContainerEnds


class Engine:
    """What it answers, one after the other."""

    def __init__(self, *states):
        self.states, self.asked = list(states), 0

    def inspect_container(self, container_id):
        self.asked += 1
        return {"State": self.states.pop(0)}


def ended(exit_code, *, memory=False):
    return {"Status": "exited", "ExitCode": exit_code, "OOMKilled": memory}


def test_an_end_is_asked_for_once():
    engine = Engine(ended(1))
    ends = ContainerEnds(engine)
    assert [ends.read("a")["ExitCode"] for _ in range(3)] == [1, 1, 1]
    assert engine.asked == 1


def test_a_memory_kill_that_the_engine_notes_late_is_seen():
    engine = Engine(ended(137), ended(137, memory=True))
    ends = ContainerEnds(engine)
    assert [ends.read("a")["OOMKilled"] for _ in range(3)] == [False, True, True]
    assert engine.asked == 2


def test_what_is_gone_is_forgotten():
    engine = Engine(ended(0), ended(0))
    ends = ContainerEnds(engine)
    ends.read("a")
    ends.keep(["b"])
    ends.read("a")
    assert engine.asked == 2
