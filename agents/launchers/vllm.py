"""vLLM: tensor parallelism over the GPUs of a replica, pipeline parallelism over the replicas.

Source of the options of several nodes: `vllm serve --help=ParallelConfig`, from 0.12 on. Ray is
not needed for them; who wants it takes launcher ray.
"""

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launch, LaunchRefusal, LaunchRequest, launcher_call
from agents.launchers.command_options import option_value
from agents.launchers.endpoints import own_ip
from agents.launchers.model_servers import ModelServer

EXECUTOR = "--distributed-executor-backend"
# The older way to start it, which reads --headless and passes it over.
MODULE = "vllm.entrypoints.openai.api_server"


class VllmLauncher(ModelServer):
    name = LauncherName.VLLM
    summary = "vLLM, its model split over all GPUs of the job"
    title = "vLLM"
    example = "vllm serve Qwen/Qwen3-8B"
    programs = frozenset(("vllm serve", MODULE))
    tensor = ("--tensor-parallel-size", "-tp")
    pipeline = ("--pipeline-parallel-size", "-pp")
    copies = ("--data-parallel-size", "-dp")
    places = frozenset(("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port"))
    place_flags = frozenset(("--headless",))
    variables = frozenset(("VLLM_HOST_IP",))

    def environment(self, launch: Launch) -> dict[str, str]:
        """Of several interfaces it would otherwise take that of the default route."""
        address = own_ip(launch.replica, launch.rendezvous)
        return {"VLLM_HOST_IP": address} if address and launch.replica.world > 1 else {}

    def place_options(self, launch: Launch) -> list[str]:
        replica, meeting = launch.replica, launch.rendezvous
        place = ["--nnodes", str(replica.world), "--node-rank", str(replica.rank)]
        place += ["--master-addr", meeting.address, "--master-port", str(meeting.port)]
        # Only rank 0 answers requests.
        return [*place, *([] if replica.rank == 0 else ["--headless"])]

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        if request.replicas > 1 and option_value(request.command, (EXECUTOR,)) == "ray":
            why = Message("launcher vllm needs no Ray: take launcher ray for vLLM's Ray executor")
            return LaunchRefusal("launcher", why, {"launcher": str(LauncherName.RAY)})
        call = launcher_call(request.command)
        if request.replicas > 1 and call and call.program == MODULE:
            return self.command_refusal()
        return super().request_refusal(request)


LAUNCHER = VllmLauncher()
