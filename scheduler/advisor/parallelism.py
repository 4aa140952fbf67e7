"""How the work of a step is divided."""

from dataclasses import dataclass

from scheduler.advisor.errors import UnknownInput
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

    @property
    def data_parallel(self) -> int:
        """GPUs by the other sizes; an error where they do not divide."""
        model = self.tensor_parallel * self.pipeline_parallel * self.context_parallel
        if model < 1 or self.gpus % model:
            raise UnknownInput(
                f"{self.gpus} GPUs do not divide by tensor x pipeline x context parallel = {model}"
            )
        return self.gpus // model

    @property
    def micro_batches(self) -> int:
        """Of each replica in a step."""
        each = self.data_parallel * self.micro_batch
        if self.global_batch % each:
            raise UnknownInput(
                f"a global batch of {self.global_batch} does not divide by data parallel "
                f"{self.data_parallel} x micro-batch {self.micro_batch}"
            )
        return self.global_batch // each

    def stage_layers(self, layers: int) -> int:
        """Of the largest stage: stages need not be equal."""
        return -(-layers // self.pipeline_parallel)
