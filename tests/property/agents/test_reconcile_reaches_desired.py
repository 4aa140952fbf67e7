"""Whatever is wanted, and whatever happens meanwhile, the node gets there and then rests.

A portal that changes its mind, a careless one that gives a slice away too early, containers that
end, an agent that starts again: the world of `worlds.py` asserts what must never happen, and the
end of each story asserts that the last document comes true within a bounded number of rounds.
"""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    Device,
    GpuMode,
    Rendezvous,
    SliceKind,
)
from agents.contract.geometry import Placement
from agents.facts.device_keys import device_place
from agents.runtime.base import ContainerPhase
from tests.property.agents.worlds import BOARD, GPUS, World
from tests.support.examples import examples
from tests.support.slow_geometry import fits_together

MEETING = Rendezvous("10.0.0.1", 29_500)
# Stop, see the end, remove, change the mode, carve, prepare, start, and one that finds nothing.
MOST_ROUNDS = 8
WISHES = list(DesiredReplicaState)
ONWARD = {wish: WISHES[WISHES.index(wish) :] for wish in WISHES}


def a_slice(gpu, place):
    return DesiredSlice(f"s-{gpu}-{place.start}", gpu, place.profile, place.start, place.size)


def the_device(slice_):
    place = {"gpu_uuid": slice_.gpu_uuid, "profile": slice_.profile}
    place |= {"start": slice_.start, "size": slice_.size}
    return Device(allocation="a", slice=slice_.id, kind=SliceKind.MIG, **place)


def the_gpu(gpu):
    return Device(allocation="a", slice=f"s-{gpu}", kind=SliceKind.GPU, gpu_uuid=gpu)


class Node(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World()
        self.made = 0
        self.careless = False
        self.places = {}

    @rule(data=st.data())
    def the_portal_wants_something_else(self, data):
        """Slices stay under what is carried on, and a device is given when nobody has it."""
        kept = [] if self.careless else self.carried(data)
        held = [d for replica in kept for d in replica.devices]
        self.careless = False
        self.want(data, kept, held, new=True)
        if data.draw(st.booleans()):
            self.the_node_comes_to_rest()

    @precondition(lambda self: self.world.containers)
    @rule(data=st.data())
    def a_careless_portal_gives_away_what_is_held(self, data):
        self.careless = True
        kept = [r for r in self.carried(data) if r.id in self.world.containers]
        self.want(data, kept, [], new=False)
        self.a_round(carve_first=data.draw(st.booleans()))

    @rule()
    def the_node_comes_to_rest(self):
        for _ in range(MOST_ROUNDS):
            self.a_round(carve_first=True)
        assert self.world.round() == 0

    @rule(carve_first=st.booleans())
    def a_round_passes(self, carve_first):
        self.a_round(carve_first=carve_first)

    def a_round(self, *, carve_first):
        before = {(i.gpu_uuid, i.start, i.profile): i.uuid for i in self.world.instances}
        wanted = {(s.gpu_uuid, s.start, s.profile) for s in self.world.desired.slices}
        self.world.round(carve_first=carve_first)
        after = {(i.gpu_uuid, i.start, i.profile): i.uuid for i in self.world.instances}
        for place in wanted & before.keys():
            assert after.get(place) == before[place], "what is wanted and there is kept"

    @precondition(lambda self: self.running())
    @rule(data=st.data(), exit_code=st.integers(0, 1))
    def a_container_ends(self, data, exit_code):
        self.world.ends(data.draw(st.sampled_from(self.running())), exit_code)

    @rule()
    def the_agent_starts_again(self):
        self.world.may_remove = False

    @rule()
    def the_portal_answers(self):
        self.world.may_remove = True

    @invariant()
    def only_what_was_wished_has_run(self):
        for replica in self.world.desired.replicas:
            if replica.wish is DesiredReplicaState.PREPARE:
                assert replica.id not in self.world.starts

    def teardown(self):
        """The last document comes true; one that gave away what is held, once that has ended."""
        world = self.world
        world.may_remove = True
        if self.careless:
            world.accept(replace(world.desired, replicas=()))
        rounds = 0
        while world.round():
            rounds += 1
            assert rounds <= MOST_ROUNDS, "it takes too many rounds"
        assert (world.changes().steps, world.changes().problems, world.actions()) == ([], [], [])
        self.assert_slices_are_as_wanted()
        self.assert_replicas_are_as_wished()

    def assert_slices_are_as_wanted(self):
        modes = {gpu.uuid: gpu.mode for gpu in self.world.desired.gpus}
        for gpu in GPUS:
            wanted = [s for s in self.world.desired.slices if s.gpu_uuid == gpu]
            if gpu in modes:
                assert self.world.mig[gpu] is (modes[gpu] is GpuMode.MIG)
                assert self.world.layout(gpu) == sorted(
                    Placement(s.start, s.size, s.profile) for s in wanted
                )

    def assert_replicas_are_as_wished(self):
        world, wanted = self.world, self.world.desired.replicas
        assert world.containers.keys() <= {replica.id for replica in wanted}
        assert {*world.failures, *world.started} <= {replica.id for replica in wanted}
        for replica in wanted:
            seen = world.containers.get(replica.id)
            phase = seen.phase if seen else None
            ended = phase is ContainerPhase.EXITED
            if replica.wish is DesiredReplicaState.PREPARE:
                assert phase is ContainerPhase.CREATED
            elif replica.wish is DesiredReplicaState.RUN:
                assert phase is ContainerPhase.RUNNING or ended
            else:
                assert ended or world.failures[replica.id].code == "never_started"

    def running(self):
        containers = self.world.containers.items()
        return sorted(key for key, c in containers if c.phase is ContainerPhase.RUNNING)

    def carried(self, data):
        """The replicas of the last document that stay, each with a wish that only goes on."""
        kept = []
        for replica in self.world.desired.replicas:
            if data.draw(st.integers(0, 3)) < 3:
                wish = data.draw(st.sampled_from(ONWARD[replica.wish]))
                meeting = MEETING if wish is DesiredReplicaState.RUN else replica.rendezvous
                kept.append(replace(replica, wish=wish, rendezvous=meeting))
        return kept

    def want(self, data, kept, held, *, new):
        gpus, slices, free = [], [], []
        for gpu in GPUS:
            here = [d for d in held if d.gpu_uuid == gpu]
            kinds = {d.kind for d in here}
            if not here and data.draw(st.integers(0, 5)) == 0:
                continue  # a GPU that is not named is left as it is
            is_mig = SliceKind.MIG in kinds or (not kinds and data.draw(st.booleans()))
            gpus.append(DesiredGpu(gpu, GpuMode.MIG if is_mig else GpuMode.WHOLE))
            if is_mig:
                places = [Placement(d.start, d.size, d.profile) for d in here]
                layout = self.a_layout(data, places)
                slices += [a_slice(gpu, place) for place in layout]
                free += [the_device(a_slice(gpu, p)) for p in layout if p not in places]
            elif not here:
                free.append(the_gpu(gpu))
        replicas = [*kept, *self.new_replicas(data, free if new else [])]
        self.world.accept(
            DesiredDocument("n-1", self.made, tuple(gpus), tuple(slices), tuple(replicas))
        )

    def a_layout(self, data, places):
        """A legal layout of one GPU that has at least `places`."""
        layout = list(dict.fromkeys(places))
        for _ in range(data.draw(st.integers(0, 4))):
            if options := list(fits_together(BOARD, layout)):
                layout.append(data.draw(st.sampled_from(options)))
        return layout

    def new_replicas(self, data, free):
        """Replicas on some of the devices that nobody has."""
        busy = {self.places[key] for key in self.world.live()}
        for device in free:
            if device_place(device) not in busy and data.draw(st.booleans()):
                self.made += 1
                wish = data.draw(st.sampled_from(WISHES))
                self.places[f"r-{self.made}"] = device_place(device)
                yield DesiredReplica(
                    id=f"r-{self.made}",
                    job=f"j-{self.made % 3}-{self.made}",
                    fence=self.made,
                    wish=wish,
                    command=("train",),
                    devices=(device,),
                    rendezvous=MEETING if wish is DesiredReplicaState.RUN else None,
                )


TestNode = Node.TestCase
TestNode.settings = examples(400, stateful_step_count=25, database=None)
