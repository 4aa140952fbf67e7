"""How long the lists of a report may be: what a node can have, with room to spare.

Both sides refuse a longer list by its length, before they look at its first entry. So the work that
a body causes is bounded by the node, not by the size of the body.
"""

# Twice what NVIDIA's kernel driver manages on one machine (NV_MAX_DEVICES in nvlimits.h: 32).
MAX_GPUS = 64
# Two GPUs, in any order.
MAX_PAIRS = MAX_GPUS * (MAX_GPUS - 1) // 2
# No board has more than 7 MIG instances; 8 is the number of its memory slices.
MAX_SLICES = 8 * MAX_GPUS
# 128 for each GPU that the driver manages: the MPS server of one takes at most 60 clients, and
# replicas that have ended stay listed until the portal has noted it.
MAX_REPLICAS = 4_096
# A device of a replica is a whole GPU, or one slice or share of one.
MAX_DEVICES = MAX_GPUS
# Partition changes that failed: one for each slice that exists or should, and one for each GPU.
MAX_PROBLEMS = 2 * MAX_SLICES + MAX_GPUS
# Events in one call. An agent sends 200, and the next ones with its next call.
MAX_EVENTS = 500
# Objects and lists of a whole body. As many replicas as 1 MiB holds, 2,000, have with their message
# and its values 6,000; all pairs of GPUs, slices, problems and events make 6,000 more.
MAX_OBJECTS = 16_384
# Entries of an event's data. Agents use up to six.
MAX_EVENT_DATA = 32
