"""Serializers of availability. They describe the JSON; `views` writes it, as a thousand nodes have
ten thousand counts."""

from typing import Any

from rest_framework import serializers

from portal.api.protocol.moments import UtcDateTimeField

NUMBER = serializers.IntegerField


class AvailabilityQuerySerializer(serializers.Serializer[Any]):
    nodes = serializers.BooleanField(
        required=False, default=False, help_text="also the counts of each node"
    )


class UnitsByCategorySerializer(serializers.Serializer[Any]):
    """Units of 1/56,000 GPU. They add up to all GPUs."""

    free = NUMBER(help_text="can be used without deleting anything")
    recarvable = NUMBER(help_text="in idle slices, which the queue deletes for other sizes")
    held = NUMBER(help_text="allocated to jobs")
    shared = NUMBER(help_text="beside MPS shares; only shares of the same project may use it")
    reserved = NUMBER(help_text="kept by the last planning pass for waiting jobs")
    unusable = NUMBER(help_text="no device fits there")
    out_of_service = NUMBER(help_text="of GPUs with a fault or a foreign process")
    node_unavailable = NUMBER(help_text="of nodes that take no work")


class DeviceCountSerializer(serializers.Serializer[Any]):
    """How many more devices of one kind could start now, each kind counted on its own. MPS shares
    are counted in GPUs with room for one."""

    kind = serializers.CharField(help_text="gpu, mig or mps")
    profile = serializers.CharField(allow_blank=True, help_text="of a MIG slice")
    ready = NUMBER(help_text="idle slices, empty GPUs")
    carvable = NUMBER(help_text="by carving")
    recarvable = NUMBER(help_text="after idle slices were deleted")
    available = NUMBER(help_text="the three together")
    total = NUMBER(help_text="if everything in service were empty")


class BoardDeviceCountSerializer(DeviceCountSerializer):
    memory_mib = NUMBER(help_text="of one device; of an MPS share at most")


class ClusterCountsSerializer(serializers.Serializer[Any]):
    """`in_service`, `out_of_service` and `on_unavailable_nodes` add up to `gpus`."""

    gpus = NUMBER()
    in_service = NUMBER()
    out_of_service = NUMBER(help_text="with a fault or a foreign process")
    on_unavailable_nodes = NUMBER(help_text="healthy, on nodes that take no work")
    free_gpus = NUMBER(help_text="whole GPUs that could start now")
    idle_slices = NUMBER(help_text="MIG slices that are ready and held by no job")
    units = UnitsByCategorySerializer()


class BoardCountsSerializer(ClusterCountsSerializer):
    board = serializers.CharField(help_text='such as "H200-141GB"')
    model = serializers.CharField(help_text='such as "H200"')
    memory_mib = NUMBER()
    devices = BoardDeviceCountSerializer(many=True)


class NodeCountsSerializer(ClusterCountsSerializer):
    """The GPUs of one board on one node."""

    node = serializers.CharField()
    board = serializers.CharField()
    devices = DeviceCountSerializer(many=True)


class AvailabilitySerializer(serializers.Serializer[Any]):
    at = UtcDateTimeField(help_text="of the snapshot that was counted")
    cluster = ClusterCountsSerializer()
    boards = BoardCountsSerializer(many=True)
    nodes = NodeCountsSerializer(many=True, required=False, help_text="with `nodes=true` only")
