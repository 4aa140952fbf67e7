"""Serializers of a question to the advisor, and of its answer."""

from dataclasses import asdict
from typing import Any

from django.urls import reverse
from rest_framework import serializers

from portal.advice.config_files import MAX_PLACE
from portal.advice.memory import MemoryPart
from portal.advice.question import Task
from portal.advice.reading import LARGEST, RECOMPUTES
from portal.advice.requests import form_query
from portal.advice.selectors import Advice, DeviceAdvice
from portal.advice.speed import REFERENCE
from portal.advice.training import REFERENCE as TIME_REFERENCE
from portal.advice.training import TrainingRun
from portal.api.jobs.reason_serializers import StartEstimateSerializer, estimate_data
from portal.planning.estimates import estimate_as_dict
from portal.submission.dry_run import RequestStart
from scheduler.advisor.quantisation import Quantisation

TASKS = [(str(task), str(task)) for task in Task]
QUANTISATIONS = [(str(each), str(each)) for each in Quantisation]
NUMBER = serializers.IntegerField


class AdviceRequestSerializer(serializers.Serializer[Any]):
    """A model and a task. Give `model`, `config` or `config_file`."""

    model = serializers.CharField(
        required=False, max_length=200, help_text="a name of the catalogue, such as llama3-8b"
    )
    config = serializers.DictField(
        required=False, help_text="a model's config.json as on Hugging Face, up to 256 KB"
    )
    config_file = serializers.CharField(
        required=False,
        max_length=MAX_PLACE,
        help_text="a config.json among files of a job or code, or in a volume of a project that "
        "you work in: JOB:PATH, TREE:PATH or volume:NAME/PATH",
    )
    task = serializers.ChoiceField(TASKS)
    batch = NUMBER(
        required=False,
        min_value=1,
        max_value=LARGEST["batch"],
        help_text="sequences of a training step, over all GPUs together; 1 by default",
    )
    recompute = serializers.ChoiceField(
        [(str(each), str(each)) for each in RECOMPUTES],
        required=False,
        help_text="which activations the backward pass computes again; full by default",
    )
    sequence = NUMBER(
        required=False,
        min_value=1,
        max_value=LARGEST["sequence"],
        help_text="tokens of a sequence; by default what the model was trained with, up to 8,192",
    )
    concurrency = NUMBER(
        required=False,
        min_value=1,
        max_value=LARGEST["concurrency"],
        help_text="sequences that are served at a time; 8 by default",
    )
    quantisation = serializers.ChoiceField(
        QUANTISATIONS, required=False, help_text="of a served model's weights; bf16 by default"
    )
    tokens = NUMBER(
        required=False,
        min_value=1,
        max_value=LARGEST["tokens"],
        help_text="of the whole training, for its time and cost; or give steps",
    )
    steps = NUMBER(
        required=False,
        min_value=1,
        max_value=LARGEST["steps"],
        help_text="of the whole training, instead of tokens",
    )
    project = serializers.CharField(
        required=False, max_length=200, help_text="one of yours; its quotas count"
    )


class MemoryPartSerializer(serializers.Serializer[Any]):
    """A part of the memory of one device."""

    name = serializers.CharField(
        help_text="weights, gradients, optimizer, activations, kv_cache or reserve"
    )
    bytes = NUMBER()
    formula = serializers.CharField(help_text="with its numbers, in English")
    reference = serializers.CharField(help_text="source of the formula")


class ServingSpeedSerializer(serializers.Serializer[Any]):
    """How fast one replica of a model server is, as busy as the question says."""

    tokens_per_second = serializers.FloatField(help_text="of all sequences together")
    tokens_per_second_each = serializers.FloatField()
    prefill_seconds = serializers.FloatField(help_text="of a prompt of the full length")
    max_concurrency = NUMBER(help_text="sequences of the full length that fit at a time")
    limits = serializers.CharField(help_text="what writing waits for")
    million_tokens_cost = serializers.FloatField(
        allow_null=True, help_text="of tokens written; null where the device has no price"
    )
    reference = serializers.CharField(help_text="source of the formula")


class TrainingRunSerializer(serializers.Serializer[Any]):
    """How long a training takes on so many devices that divide it in one way, and what it costs."""

    gpus = NUMBER(help_text="devices together")
    nodes = NUMBER(help_text="that they are on")
    tensor_parallel = NUMBER()
    pipeline_parallel = NUMBER()
    context_parallel = NUMBER()
    expert_parallel = NUMBER()
    data_parallel = NUMBER()
    zero_stage = NUMBER(help_text="3 is FSDP")
    micro_batch = NUMBER(help_text="sequences of one GPU at a time")
    recompute = serializers.CharField()
    step_seconds = serializers.FloatField()
    tokens_per_second = serializers.FloatField(help_text="of all devices together")
    steps = NUMBER(help_text="of the whole training; 0 without tokens or steps, then all below too")
    seconds = serializers.FloatField()
    gpu_hours = serializers.FloatField(help_text="a slice counts its share of a GPU")
    gpu_kwh = serializers.FloatField(help_text="of the GPUs, at the limit of their boards")
    system_kwh = serializers.FloatField(help_text="with the servers around them")
    cost = serializers.FloatField(
        allow_null=True, help_text="null where the device has no price, or steps are 0"
    )
    slower_part = serializers.CharField(
        allow_blank=True, help_text="what makes a way slower than the fastest one"
    )
    reference = serializers.CharField(help_text="source of the formula")


class AdviceStartSerializer(serializers.Serializer[Any]):
    """When the request could start, by the planner's own trial."""

    at_once = serializers.BooleanField()
    code = serializers.CharField(
        allow_blank=True, help_text="of the reason why it would wait; else empty"
    )
    estimate = StartEstimateSerializer(allow_null=True)


class DeviceAdviceSerializer(serializers.Serializer[Any]):
    """One kind of device of this cluster, and how many of it hold the task."""

    board = serializers.CharField(help_text='such as "H200-141GB"')
    model = serializers.CharField(help_text="as a request names it")
    kind = serializers.CharField(help_text="gpu or mig")
    profile = serializers.CharField(allow_blank=True, help_text="of a MIG slice")
    memory_bytes = NUMBER(help_text="that one device has")
    needed_bytes = NUMBER(help_text="that one device has to hold")
    gpus = NUMBER(help_text="devices together; where none fit, the most that were tried")
    nodes = NUMBER(help_text="that they are on")
    fits = serializers.BooleanField()
    usable = serializers.BooleanField(help_text="fits, and the project may have so many")
    obstacle = serializers.CharField(
        allow_blank=True, help_text="why the project may not have so many; else empty"
    )
    free = NUMBER(help_text="devices of the kind that could start now")
    parts = MemoryPartSerializer(many=True)
    hour_price = serializers.FloatField(
        allow_null=True, help_text="of one device; null where none is set"
    )
    price_source = serializers.CharField(
        allow_blank=True, help_text="admin, or share: the slice's share of its GPU's price"
    )
    training = TrainingRunSerializer(
        allow_null=True,
        help_text="divided by FSDP; null for serving, where it does not fit, and where speeds of "
        "the board or the model are not known",
    )
    serving = ServingSpeedSerializer(
        allow_null=True, help_text="null for a training, and for boards without figures"
    )
    start = AdviceStartSerializer(
        allow_null=True, help_text="of the first usable ones; null where nobody asked the planner"
    )
    request = serializers.DictField(
        help_text="fields of a request for it, with a command to complete; empty if unusable"
    )
    form = serializers.CharField(
        allow_blank=True, help_text="address of the request form filled in; empty if unusable"
    )


class ModelAdviceSerializer(serializers.Serializer[Any]):
    """The answer: devices that hold the task, the cheapest usable one first."""

    model = serializers.CharField()
    parameters = NUMBER()
    task = serializers.ChoiceField(TASKS)
    batch = NUMBER()
    recompute = serializers.CharField()
    sequence = NUMBER(help_text="0 for a network that has none")
    concurrency = NUMBER()
    quantisation = serializers.CharField()
    tokens = NUMBER(help_text="0 where it was not said")
    steps = NUMBER(help_text="0 where it was not said")
    currency = serializers.CharField(allow_blank=True, help_text="of all prices and costs")
    reference = serializers.CharField(help_text="where the sizes of the model were published")
    project = serializers.CharField(allow_blank=True, help_text="whose limits and starts these are")
    devices = DeviceAdviceSerializer(many=True)
    ways = TrainingRunSerializer(
        many=True,
        help_text="with the first device: the fastest ways to divide a training of all weights "
        "over as many, and FSDP over more of them",
    )

    def to_representation(self, advice: Advice) -> dict[str, Any]:
        question = advice.question
        return {
            "model": question.model,
            "parameters": int(question.shape.parameters),
            "task": str(question.task),
            "batch": question.batch,
            "recompute": str(question.recompute),
            "sequence": question.sequence,
            "concurrency": question.concurrency,
            "quantisation": str(question.quantisation),
            "tokens": question.tokens,
            "steps": question.steps,
            "currency": advice.prices.currency,
            "reference": question.source,
            "project": advice.project,
            "devices": [_device_data(advice, each) for each in advice.devices],
            "ways": [_run_data(run) for run in advice.ways()],
        }


def _device_data(answer: Advice, advice: DeviceAdvice) -> dict[str, Any]:
    project, fit, device = answer.project, advice.fit, advice.fit.device
    speed, run, price = answer.speed(fit), answer.run(fit), answer.price(fit)
    fields = advice.fields if advice.is_usable else {}
    is_open = bool(fields and project)
    return {
        "board": device.board.key,
        "model": device.model,
        "kind": str(device.kind),
        "profile": device.profile.name if device.profile else "",
        "memory_bytes": device.memory_bytes,
        "needed_bytes": fit.need.total,
        "gpus": fit.gpus,
        "nodes": fit.nodes,
        "fits": fit.fits,
        "usable": advice.is_usable,
        "obstacle": advice.obstacle.text if advice.obstacle else "",
        "free": device.count.available,
        "parts": [_part_data(part) for part in fit.need.parts],
        "hour_price": float(price.amount) if price else None,
        "price_source": str(price.source) if price else "",
        "training": _run_data(run) if run else None,
        "serving": asdict(speed) | {"reference": REFERENCE} if speed else None,
        "start": _start_data(advice.start) if advice.start else None,
        "request": fields,
        "form": f"{reverse('web:request')}?{form_query(project, fields)}" if is_open else "",
    }


def _run_data(run: TrainingRun) -> dict[str, Any]:
    division = run.parallelism
    return {
        "gpus": run.fit.gpus,
        "nodes": run.fit.nodes,
        "tensor_parallel": division.tensor_parallel,
        "pipeline_parallel": division.pipeline_parallel,
        "context_parallel": division.context_parallel,
        "expert_parallel": division.expert_parallel,
        "data_parallel": division.data_parallel,
        "zero_stage": division.zero_stage,
        "micro_batch": division.micro_batch,
        "recompute": str(division.recompute),
        "step_seconds": run.parts.seconds,
        "tokens_per_second": run.tokens_per_second,
        "steps": run.steps,
        "seconds": run.seconds,
        "gpu_hours": run.gpu_hours,
        "gpu_kwh": run.gpu_kwh,
        "system_kwh": run.system_kwh,
        "cost": run.cost,
        "slower_part": run.slower_part,
        "reference": TIME_REFERENCE,
    }


def _part_data(part: MemoryPart) -> dict[str, Any]:
    return {
        "name": part.name,
        "bytes": part.bytes,
        "formula": part.formula.text,
        "reference": part.source,
    }


def _start_data(start: RequestStart) -> dict[str, Any]:
    estimate = start.estimate
    is_told = estimate is not None and estimate.is_published
    return {
        "at_once": start.at_once,
        "code": str(start.code),
        "estimate": estimate_data(estimate_as_dict(estimate)) if estimate and is_told else None,
    }
