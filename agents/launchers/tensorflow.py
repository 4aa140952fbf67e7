"""TensorFlow: one worker per replica, which drives all of its GPUs, as MultiWorkerMirroredStrategy
expects.

Source of TF_CONFIG: tf.distribute.cluster_resolver.TFConfigClusterResolver. Worker 0 is the chief.
"""

import json

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, Launcher
from agents.launchers.endpoints import rank_endpoints
from agents.launchers.none import LAUNCHER as NO_LAUNCHER


class TensorflowLauncher(Launcher):
    name = LauncherName.TENSORFLOW
    summary = "TensorFlow, one worker per replica, with TF_CONFIG"
    starts_several = False
    keeps_command = True
    variables = frozenset(("TF_CONFIG",))

    def environment(self, launch: Launch) -> dict[str, str]:
        cluster = {"worker": rank_endpoints(launch.rendezvous)}
        task = {"type": "worker", "index": launch.replica.rank}
        config = json.dumps({"cluster": cluster, "task": task})
        return NO_LAUNCHER.environment(launch) | {"TF_CONFIG": config}

    def command(self, launch: Launch) -> list[str]:
        return list(launch.replica.command)


LAUNCHER = TensorflowLauncher()
