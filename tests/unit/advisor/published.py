"""Published rows of training runs: parallelism and what was measured."""

from dataclasses import replace

from scheduler.advisor.gpus import GPUS
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import CURRENT, MEGATRON_2021, step_parts
from scheduler.advisor.transformer import Recompute, Shape

# Korthikanti et al., table 5: hidden, heads, layers, micro-batch, global batch, tp, pp, virtual
# stages, GPUs, seconds with full recompute, seconds with selective and sequence parallelism.
KORTHIKANTI = {
    "22B": (6144, 64, 48, 4, 4, 8, 1, 1, 8, 1.42, 1.10),
    "175B": (12_288, 96, 96, 1, 64, 8, 8, 3, 64, 18.13, 13.75),
    "530B": (20_480, 128, 105, 1, 280, 8, 35, 3, 280, 49.05, 37.83),
    "1T": (25_600, 160, 128, 1, 512, 8, 64, 1, 512, 94.42, 71.49),
}
# Narayanan et al. (SC21), table 1: hidden, layers, heads, tp, pp, GPUs, micro-batch, global batch,
# billions of parameters, TFLOP/s of a GPU with full recompute.
SC21 = {
    "1.7B": (2304, 24, 24, 1, 1, 32, 16, 512, 1.7, 137),
    "3.6B": (3072, 30, 32, 2, 1, 64, 16, 512, 3.6, 138),
    "7.5B": (4096, 36, 32, 4, 1, 128, 16, 512, 7.5, 142),
    "18B": (6144, 40, 48, 8, 1, 256, 8, 1024, 18.4, 135),
    "39B": (8192, 48, 64, 8, 2, 512, 4, 1536, 39.1, 138),
    "76B": (10_240, 60, 80, 8, 4, 1024, 2, 1792, 76.1, 140),
    "145B": (12_288, 80, 96, 8, 8, 1536, 2, 2304, 145.6, 148),
    "310B": (16_384, 96, 128, 8, 16, 1920, 1, 2160, 310.1, 155),
    "530B": (20_480, 105, 128, 8, 35, 2520, 1, 2520, 529.6, 163),
    "1T": (25_600, 128, 160, 8, 64, 3072, 1, 3072, 1008.0, 163),
}
# Megatron-LM's README, H100, sequences of 4,096: hidden, layers, heads, tp, pp, GPUs, global batch,
# model TFLOP/s of a GPU.
H100 = {
    "1.7B": (2048, 24, 16, 1, 1, 48, 192, 408.8),
    "7.1B": (4096, 30, 32, 2, 1, 96, 192, 465.9),
    "32B": (7168, 48, 56, 8, 1, 384, 192, 459.6),
    "70B": (8192, 84, 64, 8, 2, 768, 384, 419.7),
    "177B": (12_288, 96, 96, 8, 6, 2304, 1152, 432.8),
    "314B": (16_384, 96, 128, 8, 8, 3072, 1536, 474.4),
}
# Measured for this project on an H100 80GB HBM3, driver 580, PyTorch 2.11, compiled layers in bf16
# with causal attention, forward and backward: shape, micro-batch, milliseconds and GiB of a layer.
MEASURED = {
    "llama3-8b": (Shape(6, 4096, 32, 8192, 0, 8, 14_336, gated=True), 1, 20.100, 1.0635),
    "llama3-70b": (Shape(2, 8192, 64, 8192, 0, 8, 28_672, gated=True), 1, 70.234, 2.0958),
    "GPT of 4,096": (Shape(6, 4096, 32, 4096), 2, 17.074, 1.0010),
    "GPT of 2,048": (Shape(12, 2048, 16, 4096), 4, 10.316, 1.0011),
}


def sc21_shape(name: str) -> Shape:
    hidden, layers, heads, *_ = SC21[name]
    return Shape(layers, hidden, heads, 2048, 51_200)


def errors() -> dict[str, float]:
    """Calculated over published seconds, less one, of each row."""
    return dict([*_korthikanti(), *_sc21(), *_h100(), *_measured()])


def _korthikanti():
    gpu = GPUS["A100-80GB"]
    for name, (
        hidden,
        heads,
        layers,
        micro,
        batch,
        t,
        p,
        v,
        gpus,
        full,
        selective,
    ) in KORTHIKANTI.items():
        shape = Shape(layers, hidden, heads, 2048, 51_200)
        whole = Parallelism(gpus, t, p, batch, micro, v, Recompute.FULL)
        part = replace(whole, recompute=Recompute.SELECTIVE, sequence_parallel=True)
        for word, parallelism, measured in (("full", whole, full), ("selective", part, selective)):
            found = step_parts(shape, parallelism, gpu, MEGATRON_2021).seconds
            yield f"{name} {word}", found / measured - 1


def _sc21():
    gpu = GPUS["A100-80GB"]
    for name, (_, _, _, t, p, gpus, micro, batch, _, teraflops) in SC21.items():
        shape = sc21_shape(name)
        parallelism = Parallelism(gpus, t, p, batch, micro, recompute=Recompute.FULL)
        found = step_parts(shape, parallelism, gpu, MEGATRON_2021).seconds
        measured = shape.hardware_flops(batch, Recompute.FULL) / gpus / teraflops / 1e12
        yield f"SC21 {name}", found / measured - 1


def _h100():
    gpu = GPUS["H100-80GB"]
    for name, (hidden, layers, heads, t, p, gpus, batch, teraflops) in H100.items():
        shape = Shape(layers, hidden, heads, 4096, 131_072)
        parallelism = Parallelism(gpus, t, p, batch, sequence_parallel=True)
        found = step_parts(shape, parallelism, gpu, CURRENT).seconds
        yield f"H100 {name}", found / (shape.model_flops(batch) / gpus / teraflops / 1e12) - 1


def _measured():
    for name, (shape, micro_batch, milliseconds, _) in MEASURED.items():
        parallelism = Parallelism(1, 1, 1, micro_batch, micro_batch)
        found = step_parts(shape, parallelism, GPUS["H100-80GB"], CURRENT).compute / shape.layers
        yield f"one GPU {name}", found / milliseconds * 1_000 - 1
