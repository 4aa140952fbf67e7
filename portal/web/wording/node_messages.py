"""Messages of the node agents, translated by their code.

An agent reports a code and one English sentence. English pages show the sentence; other languages
show the meaning of the code and quote the sentence, which names the GPU, the image or the program.
"""

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from agents.combinations.table import REFUSAL_CODES
from agents.contract.image_needs import IMAGE_UNFIT

NODE_MESSAGES: dict[str, Promise] = {
    "agent_stopped": gettext_lazy("Its node's agent was stopped with all its jobs"),
    # Of agents before the table of combinations, as is "processes".
    "backend": gettext_lazy("NCCL cannot join these processes"),
    "cdi_failed": gettext_lazy("Containers cannot get new devices"),
    "disk": gettext_lazy("The node has too little disk"),
    "disk_full": gettext_lazy("It wrote more than its disk holds, and was stopped"),
    "docker": gettext_lazy("The container engine refused"),
    "drained": gettext_lazy("Drained with its node"),
    "egress": gettext_lazy("The node cannot limit what the job reaches"),
    "engine_restarted": gettext_lazy("Its node's container engine was restarted"),
    "fence_stale": gettext_lazy("A newer attempt has taken over"),
    "files_absent": gettext_lazy("The node cannot fetch the files of the job"),
    "files_unwritten": gettext_lazy("The node cannot write the files of the job"),
    "gang_network": gettext_lazy("The node cannot join the network of the gang"),
    "git_forbidden": gettext_lazy("The node may not fetch the code of the job"),
    "git_too_large": gettext_lazy("The repository of the job's code is too large"),
    "git_unfetched": gettext_lazy("The node cannot fetch the code of the job"),
    "gpu_error": gettext_lazy("Its GPU had an error"),
    "gpu_lost": gettext_lazy("The driver has lost the GPU"),
    "illegal_layout": gettext_lazy("The GPU cannot have these slices together"),
    "image_differs": gettext_lazy("The node has another image under this name"),
    "image_env": gettext_lazy("The image sets a variable that Tessera sets"),
    "image_program": gettext_lazy("The image has no program of its own"),
    IMAGE_UNFIT: gettext_lazy("The image needs another driver than the node has"),
    "image_pull": gettext_lazy("The image cannot be pulled"),
    "in_use": gettext_lazy("The GPU is still in use"),
    "insufficient_resources": gettext_lazy("The GPU has not enough room"),
    "invalid_argument": gettext_lazy("The driver refused the call"),
    "lease_over": gettext_lazy("Its node was out of contact for too long"),
    "memory_kill": gettext_lazy("It used more memory than requested and was killed"),
    "mode_mps": gettext_lazy("Shares and slices were requested on the same GPU"),
    "mode_whole": gettext_lazy("The whole GPU and slices of it were requested at once"),
    "mps_clients": gettext_lazy("MPS accepts no more processes"),
    "mps_exclusive": gettext_lazy("The GPU is allocated exclusively"),
    "mps_missing": gettext_lazy("MPS is not installed on the node"),
    "mps_mode": gettext_lazy("The GPU's compute mode does not allow shares"),
    "mps_no_daemon": gettext_lazy("The MPS daemon does not answer"),
    "mps_over_memory": gettext_lazy("The shares would exceed the GPU's memory"),
    "mps_over_threads": gettext_lazy("The shares would exceed the whole GPU"),
    "mps_path": gettext_lazy("The directory of the MPS daemon cannot be used"),
    "mps_projects": gettext_lazy("Different projects cannot share a GPU under MPS"),
    "mps_refused": gettext_lazy("The MPS daemon refused"),
    "launcher": gettext_lazy("The launcher cannot start the job like this"),
    "mps_timeout": gettext_lazy("The MPS daemon did not answer in time"),
    "name_taken": gettext_lazy("Another container already has this name"),
    "never_started": gettext_lazy("Stopped before it ran"),
    "no_library": gettext_lazy("The driver is not installed on the node"),
    "no_mig": gettext_lazy("The GPU does not support MIG"),
    "no_permission": gettext_lazy("The agent lacks the permission on the node"),
    "no_such_gpu": gettext_lazy("The node has no such GPU"),
    "no_such_profile": gettext_lazy("The GPU has no such profile"),
    "node_lost": gettext_lazy("Its node was lost"),
    "node_restarted": gettext_lazy("Its node was restarted"),
    "not_found": gettext_lazy("The driver cannot find it"),
    "not_supported": gettext_lazy("The driver does not support it"),
    "other": gettext_lazy("The driver failed"),
    "policy": gettext_lazy("The node's own policy forbids it"),
    "processes": gettext_lazy("There are more processes than GPUs"),
    "quarantined": gettext_lazy("The GPU is quarantined: operations failed for too long"),
    "reboot_required": gettext_lazy("The node must be rebooted"),
    "rdma": gettext_lazy("The GPUs of the job have no RDMA device that is up"),
    "credential_unreadable": gettext_lazy("The portal cannot read the credential of a registry"),
    "reset_required": gettext_lazy("The GPU must be reset"),
    "secret_missing": gettext_lazy("A secret of the job was deleted"),
    "secret_unreadable": gettext_lazy("The portal cannot read a secret of the job"),
    "secrets_unkept": gettext_lazy("The node cannot keep secrets in memory"),
    "runtime": gettext_lazy("No process can be started"),
    "unmanaged": gettext_lazy("The GPU has slices that Tessera does not manage"),
    "unreadable": gettext_lazy("The node's agent is too old for this job"),
    "vanished": gettext_lazy("Its container has disappeared from the node"),
    "volume": gettext_lazy("A volume cannot be used on the node"),
    "workspace": gettext_lazy("The node cannot make folders for the job"),
    **dict.fromkeys(REFUSAL_CODES, gettext_lazy("What it requests does not go together")),
}


def node_message_text(code: str, sentence: str) -> str:
    """An agent's message in the active language, as far as its code is known."""
    meaning = NODE_MESSAGES.get(code)
    if meaning is None or (get_language() or "en").startswith("en"):
        return sentence
    if not sentence:
        return str(meaning)
    return _("%(gist)s (%(words)s)") % {"gist": meaning, "words": sentence}
