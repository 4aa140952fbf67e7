"""Time of collectives. Sizes in bytes, bandwidths in bytes a second.

`busbw` is what a link carries, `algbw` the payload by the time: nccl-tests, doc/PERFORMANCE.md.
"""

from scheduler.advisor.errors import AdvisorError, one_of

# A payload of so many bytes has half of the bandwidth of large ones.
HALF_RATE_BYTES, SIZE_EXPONENT = 18.7 * 2**20, 0.82


def bus_factor(collective: str, ranks: int) -> float:
    """busbw over algbw."""
    if ranks < 1:
        raise AdvisorError("a collective has at least 1 rank", "n")
    share = (ranks - 1) / ranks
    factors = {
        "all_reduce": 2 * share,
        "reduce_scatter": share,
        "all_gather": share,
        "alltoall": share,
        "gather": share,
        "scatter": share,
        "broadcast": 1.0,
        "reduce": 1.0,
        "sendrecv": 1.0,
        "hypercube": 1.0,
    }
    if collective not in factors:
        raise one_of("collective", collective, factors)
    return factors[collective]


def collective_seconds(collective: str, size: float, ranks: int, bus_bandwidth: float) -> float:
    """Of a large payload, which latency does not slow down. For all_gather and reduce_scatter the
    size is that of the whole array."""
    if bus_bandwidth <= 0:
        raise AdvisorError("the bandwidth must be more than 0", "bandwidth")
    return size * bus_factor(collective, ranks) / bus_bandwidth


def sized_bus_bandwidth(bus_bandwidth: float, size: float) -> float:
    """What is left of the bandwidth of large payloads for one of this size, which starting the
    collective slows down. Fitted to nccl-tests' all-reduces of eight H200 (stas00/ml-engineering):
    39.9, 155.5, 346.5 and 450.3 of 480 GB/s at 1, 8, 64 and 512 MiB, within 3 %."""
    if size <= 0:
        raise AdvisorError("the payload must be more than 0 bytes", "bytes")
    slower: float = (HALF_RATE_BYTES / size) ** SIZE_EXPONENT
    return bus_bandwidth / (1 + slower)


def between_nodes_seconds(
    size: float, nodes: int, gpus_per_node: int, nic_bandwidth: float
) -> float:
    """The phase between nodes of a hierarchical all-reduce, at least: every GPU sends its part of
    the payload through a NIC of its own."""
    return collective_seconds("all_reduce", size / gpus_per_node, nodes, nic_bandwidth)
