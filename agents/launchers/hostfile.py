"""A hostfile: a line for each replica, with the processes that it takes as slots.

Hosts are names for ranks, which no program resolves. So replicas that share an address, as plain
processes of one machine do, stay apart, and no address of a node gets into a file."""

PREFIX = "replica-"


def host_names(world: int) -> list[str]:
    return [f"{PREFIX}{rank}" for rank in range(world)]


def hostfile(world: int, slots: int) -> str:
    return "".join(f"{name} slots={slots}\n" for name in host_names(world))
