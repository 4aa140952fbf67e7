"""REST view of what the collective libraries of a job's replicas are told, and why."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.collectives.variables import RankVariable
from portal.allocations.selectors import attempts_of
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.desired.rank_network import RanksNetwork, rank_networks
from portal.jobs.selectors import job_visible


class RankVariableSerializer(serializers.Serializer[RankVariable]):
    name = serializers.CharField()
    value = serializers.CharField()
    why = serializers.CharField(help_text="one sentence, in English")
    is_requested = serializers.BooleanField(help_text="whether the request set the value")


class RanksNetworkSerializer(serializers.Serializer[RanksNetwork]):
    ranks = serializers.ListField(
        child=serializers.IntegerField(), help_text="of replicas that are told the same"
    )
    nodes = serializers.ListField(child=serializers.CharField(), help_text="of these replicas")
    variables = RankVariableSerializer(many=True)


class JobRankNetworkView(ApiView):
    @extend_schema(operation_id="job_rank_network", responses=list_response(RanksNetworkSerializer))
    def get(self, request: ApiRequest, job: str) -> Response:
        """What NCCL, gloo and PyTorch's flight recorder of the last attempt's replicas are told, as
        their nodes report themselves now. Empty before the job has devices."""
        row = job_visible(request.caller, job)
        attempts = attempts_of(row)
        found: Any = rank_networks(request.caller, row, attempts[-1]) if attempts else ()
        return Response({"results": RanksNetworkSerializer(found, many=True).data})
