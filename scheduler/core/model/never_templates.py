"""Why a request can never run on this cluster: messages of the planner, by their keys."""

from agents.contract.message import MessageTemplate

NEVER = {
    "never.no_shares": MessageTemplate(
        "No node here offers MPS shares. Request a MIG slice or a whole GPU"
    ),
    "never.profile": MessageTemplate(
        "No GPU here has the profile %(profile)s. Profiles here: %(profiles)s"
    ),
    "never.no_mig": MessageTemplate(
        "No GPU here has the profile %(profile)s: these boards do not support MIG"
    ),
    "never.memory": MessageTemplate(
        "No GPU here has %(asked)s of memory; the largest has %(largest)s"
    ),
    "never.model": MessageTemplate("There is no %(asked)s here. GPUs here: %(boards)s"),
    "never.one_node": MessageTemplate(
        "The request needs %(needed)s replicas%(each)s on one node; the largest node has %(what)s "
        "for %(most)s"
    ),
    "never.network": MessageTemplate(
        "The request needs %(needed)s replicas%(each)s on one network; the largest network has "
        "%(what)s for %(most)s"
    ),
    "never.cluster": MessageTemplate(
        "The request needs %(needed)s replicas%(each)s; the whole cluster has %(what)s for %(most)s"
    ),
    "never.gpus": MessageTemplate(
        "No node has %(needed)s %(board)s GPU; the largest has %(most)s",
        "No node has %(needed)s %(board)s GPUs; the largest has %(most)s",
        "needed",
    ),
    "never.processes": MessageTemplate(
        "%(needed)s processes in one share are too many: MPS on a %(board)s GPU serves %(most)s"
    ),
    "never.host": MessageTemplate(
        "No node with this GPU has %(cpu)s CPUs and %(memory)s of memory for a replica; the "
        "largest has %(most_cpu)s CPUs and %(most_memory)s"
    ),
    "never.cpu": MessageTemplate(
        "No node with this GPU has %(cpu)s CPUs; the largest has %(most)s"
    ),
    "never.host_memory": MessageTemplate(
        "No node with this GPU has %(memory)s of memory; the largest has %(most)s"
    ),
    "never.disk": MessageTemplate(
        "No node with this GPU has %(disk)s of disk for jobs; the largest has %(most)s"
    ),
    "never.quota": MessageTemplate(
        "This needs %(needed)s GPUs; %(whose)s may use at most %(most)s. Request fewer, or "
        "ask an admin for more"
    ),
    "never.quota_of": MessageTemplate(
        "This needs %(needed)s GPUs; %(whose)s may use at most %(most)s %(model)s GPUs. "
        "Request fewer, or ask an admin for more"
    ),
}
