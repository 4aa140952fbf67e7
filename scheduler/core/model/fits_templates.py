"""Why a placement that a pass decided does not fit any more when it is committed."""

from agents.contract.message import MessageTemplate

FITS = {
    "fits.ranks": MessageTemplate("the placement does not name every rank once"),
    "fits.node_gone": MessageTemplate("a node of the placement is gone"),
    "fits.one_node": MessageTemplate("the request needs one node"),
    "fits.network": MessageTemplate("the nodes do not share a network"),
    "fits.no_addresses": MessageTemplate("no addresses are free for a network of its own"),
    "fits.nvlink": MessageTemplate("NVLink does not connect these GPUs"),
    "fits.host": MessageTemplate("%(node)s lacks CPU, memory or disk"),
    "fits.gpu_elsewhere": MessageTemplate("the GPU is not on this node"),
    "fits.out_of_service": MessageTemplate("GPU %(gpu)s of %(node)s is out of service"),
    "fits.idle_slice": MessageTemplate("the idle slice was taken or changed"),
    "fits.gpu_taken": MessageTemplate("the GPU is no longer empty"),
    "fits.share_room": MessageTemplate("there is no longer room for this share on the GPU"),
    "fits.place_taken": MessageTemplate("its place on the GPU is no longer free"),
}
