"""Serializers of disputed claims."""

from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.inventory.models import DisputedClaim


class DisputedClaimSerializer(UtcModelSerializer[DisputedClaim]):
    gpu_uuid = serializers.CharField(source="gpu.uuid")
    holder = serializers.CharField(source="gpu.node.name", help_text="the node that has the GPU")
    claimant = serializers.CharField(
        source="claimant.name", help_text="the node that reports it as well, and gets no work on it"
    )

    dismissed_by = serializers.CharField(source="dismiss_actor", read_only=True)

    class Meta:
        model = DisputedClaim
        fields = [
            "id",
            "gpu_uuid",
            "holder",
            "claimant",
            "claimed_at",
            "dismissed_at",
            "dismissed_by",
        ]
