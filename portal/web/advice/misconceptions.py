"""What is often believed about memory, links and time of training, and what is right: a page."""

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe


@dataclass(frozen=True, slots=True)
class Misconception:
    """One belief, corrected."""

    claim: Promise
    fact: Promise
    formula: str
    """The calculation, without words of a language; empty where there is nothing to calculate."""
    source: str


@login_required
@require_safe
def misconceptions_page(request: HttpRequest) -> HttpResponse:
    """The text is the same for everybody."""
    context = {"groups": MISCONCEPTIONS}
    return render(request, "web/advice/misconceptions.html", context)


MEMORY = (
    Misconception(
        _("Adam in mixed precision needs 12 bytes for each parameter"),
        _(
            "It needs 16, or 18 with gradients in 32 bits: besides the moments there is a copy of "
            "the weights in 32 bits. A model of 7.5 billion parameters takes 120 GB on each of "
            "64 GPUs, and with ZeRO 1, 2 and 3 takes 31.4, 16.6 and 1.9 GB."
        ),
        "2 + 2 + (4 + 4 + 4) = 16;  2 + 4 + 12 = 18;  16 × 7.5×10⁹ = 120 GB",
        "ZeRO, arXiv 1910.02054, 3.1, figure 1; Megatron-LM, distributed optimizer",
    ),
    Misconception(
        _("13 billion parameters train on one A100 at 850 ms a step of 65,536 tokens"),
        _(
            "Their states do not fit, and the step would be 19 times as fast as the GPU's peak of "
            "312 TFLOP/s."
        ),
        "16 × 13×10⁹ = 208 GB > 80 GB;  6 × 13×10⁹ × 65,536 / 0.85 s = 6,014 TFLOP/s",
        "ZeRO, arXiv 1910.02054, 3.1; NVIDIA A100 data sheet",
    ),
    Misconception(
        _("DeepSpeed's ZeRO 2 needs 4P + 16P/N bytes, as its docs say"),
        _("Its code estimates 2P + 18P/N: for t5-3b on eight GPUs 11.3 GiB, not 15.9."),
        "P = 2.851×10⁹, N = 8:  2P + 18P/8 = 11.3 GiB;  4P + 16P/8 = 15.9 GiB",
        "DeepSpeed, deepspeed/runtime/zero/stage_1_and_2.py",
    ),
    Misconception(
        _("A model of 16 billion parameters is served on a GPU of 24 GB"),
        _("In 16 bits its weights alone are 32 GB; keys and values of the sequences come on top."),
        "2 × 16×10⁹ = 32 GB",
        "PagedAttention, arXiv 2309.06180, 3",
    ),
    Misconception(
        _("DeepSeek-MoE-16B has 16 experts"),
        _("It has 64 and 2 shared ones, of which each token meets 6 and the shared ones."),
        "",
        "DeepSeekMoE, arXiv 2401.06066, 5.1",
    ),
)
LINKS = (
    Misconception(
        _("NVLink 3 has 600 GB/s, so that 45.5 GB are sent in 76 ms"),
        _(
            "600 GB/s is both directions together; one has 300, and eight A100 were measured at "
            "235 GB/s. In one direction NVLink 4 has 450 and NVLink 5 has 900 GB/s."
        ),
        "45.5 / 300 = 152 ms;  45.5 / 235 = 194 ms",
        "NVIDIA A100 data sheet; nccl-tests, doc/PERFORMANCE.md",
    ),
    Misconception(
        _("NVLink 3 is 19 times as fast as PCIe and 24 times as fast as InfiniBand"),
        _(
            "That compares both directions of one with one direction of the other. In one "
            "direction PCIe 4 has 31.5 and PCIe 5 has 63 GB/s, HDR 25 and NDR 50: NVLink 3 is 9.5 "
            "times as fast as PCIe 4 and 12 times as fast as HDR."
        ),
        "300 / 31.5 = 9.5;  300 / 25 = 12",
        "PCI-SIG; NVIDIA A100 and ConnectX data sheets",
    ),
    Misconception(
        _("Eight GPUs of a node share one network card"),
        _(
            "In systems for training each GPU has its own. Between k nodes an all-reduce then "
            "takes at least this long; with the whole payload through one card it would be 3.9 "
            "times what four nodes of eight B200 were measured to take."
        ),
        "2 (k − 1) / k × S / 8 / B",
        "NVIDIA DGX user guides; nccl-tests, doc/PERFORMANCE.md",
    ),
    Misconception(
        _("An A100 has 6 NVLinks"),
        _("It has 12, two to each of six NVSwitches. An H100 has 18, 900 GB/s in both directions."),
        "12 × 50 = 600 GB/s;  18 × 50 = 900 GB/s",
        "NVIDIA A100 and H100 white papers",
    ),
    Misconception(
        _("NVSwitch 3 connects 18 GPUs"),
        _("18 is the number of links of an H100; the switch has 64 ports."),
        "",
        "NVIDIA H100 white paper",
    ),
    Misconception(
        _("GeForce RTX 4090 can be joined by an NVLink bridge"),
        _("They have no NVLink; the RTX 3090 was the last GeForce with it."),
        "",
        "NVIDIA Ada GPU architecture white paper",
    ),
    Misconception(
        _("A ring makes four GPUs 1.5 times as efficient"),
        _("The factor is what each rank sends, in sizes of the payload. It is no speed-up."),
        "2 (N − 1) / N = 1.5, N = 4",
        "nccl-tests, doc/PERFORMANCE.md",
    ),
)
TIME = (
    Misconception(
        _("ZeRO reduces communication, and its stage 3 costs no more than data parallelism"),
        _("Stages 1 and 2 send as much as data parallelism does, stage 3 half as much again."),
        "2P;  2P;  3P",
        "ZeRO, arXiv 1910.02054, 7",
    ),
    Misconception(
        _("A step over PCIe takes 200 ms, and the all-reduce in it 1.42 s"),
        _("A step is never shorter than the communication that computing does not hide."),
        "T ≥ T(comm) − T(overlap)",
        "PyTorch DDP, arXiv 2006.15704, 3.2",
    ),
    Misconception(
        _("Communication adds to the step of a single GPU"),
        _("One GPU exchanges nothing, and what matrices hide is not added either."),
        "2 (N − 1) / N = 0, N = 1",
        "nccl-tests, doc/PERFORMANCE.md",
    ),
    Misconception(
        _("The bubble of a pipeline is (p − 1)/m of all time"),
        _(
            "That is its part of the time without it. Of all time it is less: with 8 stages and 32 "
            "micro-batches 17.9 %, where the first definition gives 21.9 %."
        ),
        "(p − 1) / m = 7 / 32 = 21.9 %;  (p − 1) / (m + p − 1) = 7 / 39 = 17.9 %",
        "Narayanan et al., SC21, arXiv 2104.04473, 2.2",
    ),
    Misconception(
        _("no_sync of PyTorch overlaps communication with computing"),
        _(
            "It leaves communication out, to accumulate gradients. DDP overlaps both without it, "
            "as each bucket of gradients is ready."
        ),
        "",
        "PyTorch DDP, arXiv 2006.15704, 3.2",
    ),
    Misconception(
        _("A server with eight A100 draws 3.2 kW"),
        _("The GPUs alone draw that. A DGX A100 draws up to 6.5 kW."),
        "8 × 400 W = 3.2 kW",
        "NVIDIA A100 and DGX A100 data sheets",
    ),
)
MISCONCEPTIONS = ((_("Memory"), MEMORY), (_("Links"), LINKS), (_("Time and energy"), TIME))
