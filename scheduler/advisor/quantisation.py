"""Bytes of a weight that a model server loads, by the way it is quantised.

Sources: AWQ and GPTQ (arXiv 2306.00978, 2210.17323) with a scale of 16 bits and a zero of 4 for
each group of 128 weights; QLoRA (arXiv 2305.14314), section 3, for nf4; llama.cpp's
tools/quantize/README.md for its formats, as bits a weight of Llama 3.1 8B.
"""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.advisor.transformer import Shape


class Quantisation(StrEnum):
    """Types of the weights; those of llama.cpp (Ollama) have its names."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    AWQ = "awq"
    GPTQ = "gptq"
    NF4 = "nf4"
    Q8_0 = "q8_0"
    Q6_K = "q6_k"
    Q5_K_M = "q5_k_m"
    Q4_K_M = "q4_k_m"
    Q3_K_M = "q3_k_m"


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Bits of a weight in the layers, and of tables and the logits' matrix."""

    layer_bits: float
    table_bits: float = 16
    multiplies_in: str = "bf16"  # the type of the matrix products: others are unpacked first


FORMATS: dict[Quantisation, WeightFormat] = {
    Quantisation.FP32: WeightFormat(32, 32, "fp32"),
    Quantisation.BF16: WeightFormat(16),
    Quantisation.FP16: WeightFormat(16),
    Quantisation.FP8: WeightFormat(8, multiplies_in="fp8"),
    Quantisation.INT8: WeightFormat(8, multiplies_in="int8"),
    Quantisation.AWQ: WeightFormat(4 + 20 / 128),
    Quantisation.GPTQ: WeightFormat(4 + 20 / 128),
    Quantisation.NF4: WeightFormat(4.127),
    Quantisation.Q8_0: WeightFormat(8.5, 8.5),
    Quantisation.Q6_K: WeightFormat(6.56, 6.56),
    Quantisation.Q5_K_M: WeightFormat(5.7, 5.7),
    Quantisation.Q4_K_M: WeightFormat(4.89, 4.89),
    Quantisation.Q3_K_M: WeightFormat(4.0, 4.0),
}


def weight_bytes(shape: Shape, quantisation: Quantisation) -> float:
    """Of all weights of the model."""
    of = FORMATS[quantisation]
    layers = shape.layer_parameters
    return (layers * of.layer_bits + (shape.parameters - layers) * of.table_bits) / 8
