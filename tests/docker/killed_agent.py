"""An agent that prepares one replica, stops in front of a step, says so, and waits for its end."""

import json
import sys
import threading
from pathlib import Path

from docker.api.container import ContainerApiMixin
from docker.api.network import NetworkApiMixin

from agents.admission.policy import NodePolicy
from agents.contract.codec import decode
from agents.contract.documents import DesiredReplica
from agents.overlay import gang_links
from agents.overlay.gang_links import NodeEnd
from agents.overlay.offer import OverlayRules, overlay_offer
from agents.runtime.docker import DockerRuntime
from tests.docker.two_engines import PORT

STEPS = {
    "create_network": NetworkApiMixin,
    "link_create": gang_links,
    "create_container": ContainerApiMixin,
}


def main(node: str, step: str, text: str) -> None:
    given = json.loads(text)
    home, address = Path(given["home"]), given["address"]
    plain = getattr(STEPS[step], step)

    def wait(*arguments: object, **options: object) -> None:
        if step == "create_network":
            plain(*arguments, **options)
        print("there", flush=True)
        threading.Event().wait()

    setattr(STEPS[step], step, wait)
    offer = overlay_offer(OverlayRules("lab", "vxlan", PORT), address, home)
    end = NodeEnd(node, "lab", address, offer, home)
    runtime = DockerRuntime(home / "logs", node, NodePolicy(), address=address, end=end)
    runtime.prepare(decode(DesiredReplica, given["replica"]), ())


if __name__ == "__main__":
    main(*sys.argv[1:])
