"""Bytes of activations on the first pipeline stage.

Source: Korthikanti et al. (arXiv 2205.05198), table 2 and section 4.2.3; 16 bits a number. Latent
attention and experts are counted in the same way, by what each matrix and product reads.
"""

from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.transformer import Recompute, Shape


def layer_bytes(
    shape: Shape, parallelism: Parallelism, recompute: Recompute, flash_attention: bool = False
) -> float:
    """Of one layer and one micro-batch on each GPU. In GPT without recompute it is
    sbh (10 + 24/t + 5as/(ht)), and sbh/t (34 + 5as/h) with sequence parallelism.

    Programs with flash attention never store the scores of attention, as selective recompute does
    not, and train without dropout, whose masks are 2 of the 10.
    """
    t = parallelism.tensor_parallel
    tokens = parallelism.micro_batch * shape.sequence / parallelism.context_parallel
    unit = tokens * shape.hidden
    if recompute is Recompute.FULL:
        return 2.0 * unit
    scores = 5 * shape.heads * shape.sequence / shape.hidden
    if recompute is Recompute.SELECTIVE or flash_attention:
        scores = 0.0
    split = _attention(shape) + _feed_forward(shape) + scores
    # Inputs, norms and masks of dropout.
    whole = 8.0 if flash_attention else 10.0
    if parallelism.sequence_parallel:
        whole /= t
    return unit * (whole + split / t)


def _attention(shape: Shape) -> float:
    """Queries, keys, values and what leaves attention, as bytes for each of s b h."""
    if shape.latent:
        return 2 * shape.latent.activations(shape.heads) / shape.hidden
    return shape.attention_ratio * (4 + 4 * shape.kv_share)


def _feed_forward(shape: Shape) -> float:
    """The inside of the feed-forward part, as bytes for each of s b h: of a token's experts, with
    its copy before each of them and its result after, on average over the layers."""
    matrices = 3 if shape.gated else 2
    plain = 2 * shape.feed_forward_ratio * matrices
    if not shape.experts:
        return plain
    experts, share = shape.experts, shape.expert_layers / shape.layers
    width = experts.top * experts.width + experts.shared_width
    chosen = 2 * matrices * width / shape.hidden + 4 * experts.top
    return (1 - share) * plain + share * chosen


def logit_bytes(shape: Shape, parallelism: Parallelism) -> float:
    """Of the logits in 32 bits, which the loss keeps (section 4.3)."""
    tokens = parallelism.micro_batch * shape.sequence / parallelism.context_parallel
    return 4.0 * tokens * shape.vocabulary / parallelism.tensor_parallel


def stage_bytes(shape: Shape, parallelism: Parallelism, flash_attention: bool = False) -> float:
    """The first stage holds as many micro-batches as there are stages, and more where stages are
    interleaved: about all layers of one micro-batch, whatever the number of stages."""
    p, v = parallelism.pipeline_parallel, parallelism.virtual_stages
    interleaved = 1 + (p - 1) / (p * v) if v > 1 else 1.0
    layers = parallelism.stage_layers(shape.layers) * min(p, parallelism.micro_batches)
    one = layer_bytes(shape, parallelism, parallelism.recompute, flash_attention)
    return one * layers * interleaved
