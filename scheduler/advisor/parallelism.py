"""How the work of a step is divided."""

from dataclasses import dataclass

from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.transformer import Recompute


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a step is spread over GPUs: tensor, pipeline, context and data parallelism."""

    gpus: int
    tensor_parallel: int
    pipeline_parallel: int
    global_batch: int  # sequences
    micro_batch: int = 1
    virtual_stages: int = 1
    recompute: Recompute = Recompute.NONE
    sequence_parallel: bool = False
    context_parallel: int = 1
    expert_parallel: int = 1  # of the replicas and parts of sequences, those that share experts
    zero_stage: int = 0  # 1 divides optimizer states, 2 gradients too, 3 weights too, as FSDP does

    @property
    def data_parallel(self) -> int:
        """GPUs by the other sizes; an error where they do not divide."""
        model = self.tensor_parallel * self.pipeline_parallel * self.context_parallel
        if model < 1 or self.gpus % model:
            raise AdvisorError(
                "%(gpus)s GPUs do not divide by tensor x pipeline x context parallel = %(model)s",
                "gpus",
                gpus=self.gpus,
                model=model,
            )
        return self.gpus // model

    @property
    def micro_batches(self) -> int:
        """Of each replica in a step."""
        each = self.data_parallel * self.micro_batch
        if self.global_batch % each:
            raise AdvisorError(
                "a global batch of %(batch)s does not divide by data parallel %(replicas)s x "
                "micro-batch %(micro_batch)s",
                "global_batch",
                batch=self.global_batch,
                replicas=self.data_parallel,
                micro_batch=self.micro_batch,
            )
        return self.global_batch // each

    def stage_layers(self, layers: int) -> int:
        """Of the largest stage: stages need not be equal."""
        return -(-layers // self.pipeline_parallel)
