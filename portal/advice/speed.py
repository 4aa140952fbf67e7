"""How fast a device serves a model, where the figures of its board are known. Pure."""

from dataclasses import dataclass

from portal.advice.fits import DeviceFit
from portal.advice.question import AdviceQuestion
from portal.prices.price_table import HourPrice
from scheduler.advisor.cost import million_tokens_cost
from scheduler.advisor.inference import Bottleneck, serving_fit
from scheduler.advisor.transformer import Shape

REFERENCE = "Pope et al., arXiv 2211.05102, 2 and 3; data sheet of the board"


@dataclass(frozen=True, slots=True)
class ServingSpeed:
    """Of one replica of a model server that is as busy as the question says."""

    tokens_per_second: float
    """Of all sequences together, while they are written."""
    tokens_per_second_each: float
    prefill_seconds: float
    """Until the first token of a prompt as long as a sequence may be."""
    max_concurrency: int
    """Sequences of the full length that fit at a time."""
    limits: Bottleneck
    """What writing waits for."""
    million_tokens_cost: float | None
    """In the currency of the prices; None where the device has no price."""


def serving_speed(
    question: AdviceQuestion, fit: DeviceFit, price: HourPrice | None = None
) -> ServingSpeed | None:
    """`price`: of one device. None for a training, where it does not fit, and for a board without
    figures."""
    figures, shape = fit.device.figures, question.shape
    if question.is_training or not fit.fits or figures is None or not isinstance(shape, Shape):
        return None
    served = serving_fit(shape, question.quantisation, figures, fit.gpus, question.concurrency)
    tokens, cost = served.decode_tokens_per_second, None
    if price:
        cost = million_tokens_cost(fit.gpus * float(price.amount), tokens)
    return ServingSpeed(
        tokens_per_second=tokens,
        tokens_per_second_each=served.tokens_per_second_each,
        prefill_seconds=served.prefill_seconds,
        max_concurrency=served.max_concurrency,
        limits=served.limits,
        million_tokens_cost=cost,
    )
