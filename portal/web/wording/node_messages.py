"""Messages of the node agents, translated by their code.

An agent reports a code and one English sentence. English pages show the sentence; other languages
show the meaning of the code and quote the sentence, which names the GPU, the image or the program.
"""

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

NODE_MESSAGES: dict[str, Promise] = {
    "backend": gettext_lazy("NCCL cannot join these processes"),
    "cdi_failed": gettext_lazy("Containers get no new devices"),
    "disk": gettext_lazy("The node has too little disk"),
    "docker": gettext_lazy("The container engine refused"),
    "drained": gettext_lazy("Drained with its node"),
    "fence_stale": gettext_lazy("A newer attempt has taken over"),
    "gpu_error": gettext_lazy("Its GPU had an error"),
    "gpu_lost": gettext_lazy("The driver has lost the GPU"),
    "illegal_layout": gettext_lazy("The GPU cannot have these slices together"),
    "image_env": gettext_lazy("The image sets what Tessera sets"),
    "image_pull": gettext_lazy("The image cannot be pulled"),
    "in_use": gettext_lazy("The GPU is still in use"),
    "insufficient_resources": gettext_lazy("The GPU has no room for it"),
    "invalid_argument": gettext_lazy("The driver refused the call"),
    "memory_kill": gettext_lazy("It used more memory than it asked for, and was killed"),
    "mode_mps": gettext_lazy("The GPU is wanted for shares and in slices at once"),
    "mode_whole": gettext_lazy("The GPU is wanted whole and in slices at once"),
    "mps_clients": gettext_lazy("MPS takes no more processes here"),
    "mps_exclusive": gettext_lazy("The GPU is given to somebody alone"),
    "mps_missing": gettext_lazy("MPS is not installed on the node"),
    "mps_mode": gettext_lazy("The GPU is not in a mode for shares"),
    "mps_no_daemon": gettext_lazy("The MPS daemon does not answer"),
    "mps_over_memory": gettext_lazy("The shares would have more memory than the GPU"),
    "mps_over_threads": gettext_lazy("The shares would have more than the whole GPU"),
    "mps_path": gettext_lazy("The folder of the MPS daemon cannot be used"),
    "mps_projects": gettext_lazy("Projects do not share a GPU under MPS"),
    "mps_refused": gettext_lazy("The MPS daemon refused"),
    "mps_timeout": gettext_lazy("The MPS daemon did not answer in time"),
    "name_taken": gettext_lazy("Another container has its name"),
    "never_started": gettext_lazy("It was stopped before it ran"),
    "no_library": gettext_lazy("The driver is not installed on the node"),
    "no_mig": gettext_lazy("The GPU has no MIG"),
    "no_permission": gettext_lazy("The agent may not do this on the node"),
    "no_such_gpu": gettext_lazy("The node has no such GPU"),
    "no_such_profile": gettext_lazy("The GPU has no such profile"),
    "node_lost": gettext_lazy("Its node was lost"),
    "not_found": gettext_lazy("The driver does not find it"),
    "not_supported": gettext_lazy("The driver does not support it"),
    "other": gettext_lazy("The driver failed"),
    "policy": gettext_lazy("The node's own policy forbids it"),
    "processes": gettext_lazy("There are more processes than GPUs"),
    "quarantined": gettext_lazy("The GPU is set aside: it was refused for too long"),
    "reboot_required": gettext_lazy("The node must be started anew"),
    "reset_required": gettext_lazy("The GPU must be reset"),
    "runtime": gettext_lazy("No process can be started"),
    "unmanaged": gettext_lazy("The GPU has slices that are not ours"),
    "vanished": gettext_lazy("Its container is gone from the node"),
}


def node_message_text(code: str, sentence: str) -> str:
    """An agent's message in the active language, as far as its code is known."""
    meaning = NODE_MESSAGES.get(code)
    if meaning is None or (get_language() or "en").startswith("en"):
        return sentence
    if not sentence:
        return str(meaning)
    return _("%(gist)s (%(words)s)") % {"gist": meaning, "words": sentence}
