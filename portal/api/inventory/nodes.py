"""Nodes over REST: everyone looks, platform admins add, cordon and retire."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Scope
from portal.accounts.rights import require_platform_admin
from portal.api.jobs.responses import asked
from portal.api.protocol.authentication import caller
from portal.api.protocol.content import ByName
from portal.api.protocol.problems import VersionStale
from portal.api.protocol.versions import ETAG, IF_MATCH, version_seen
from portal.database.locks import locked
from portal.errors import Refused
from portal.inventory.models import Node
from portal.inventory.selectors import nodes
from portal.inventory.services import (
    node_add,
    node_allow_mass_removal,
    node_cordon,
    node_invite,
    node_retire,
    node_uncordon,
)
from portal.inventory.versions import node_change, node_version


class NodeShape(serializers.ModelSerializer[Node]):
    gpu_count = serializers.IntegerField()
    labels = serializers.ListField(child=serializers.CharField())
    taints = serializers.ListField(child=serializers.CharField())
    version = serializers.SerializerMethodField(
        help_text="of what people choose, and its status: the ETag, for If-Match"
    )

    class Meta:
        model = Node
        fields = [
            "name",
            "status",
            "schedulable",
            "cordon_reason",
            "cordon_by",
            "labels",
            "taints",
            "taint_reason",
            "last_seen_at",
            "fabric",
            "cpu_milli",
            "memory_mib",
            "disk_mib",
            "gpu_count",
            "created_at",
            "version",
        ]

    def get_version(self, node: Node) -> str:
        return node_version(node)


class NodeBody(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)


class CordonBody(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=200)


class NodeChange(serializers.Serializer[Any]):
    """What is left out stays. Taking a node out of work, or tainting it, needs a reason."""

    schedulable = serializers.BooleanField(required=False)
    cordon_reason = serializers.CharField(
        max_length=200, required=False, default="", allow_blank=True
    )
    labels = serializers.ListField(child=serializers.CharField(max_length=128), required=False)
    taints = serializers.ListField(child=serializers.CharField(max_length=128), required=False)
    taint_reason = serializers.CharField(
        max_length=200, required=False, default="", allow_blank=True
    )


class JoinTokenShape(serializers.Serializer[Any]):
    """The token is shown this once."""

    node = NodeShape()
    join_token = serializers.CharField()


class NodeList(GenericAPIView[Node]):
    scopes = {"POST": Scope.ADMIN}
    pagination_class = ByName
    serializer_class = NodeShape

    @extend_schema(operation_id="node_list", responses=NodeShape(many=True))
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(nodes().defer("desired", "topology")) or []
        return self.get_paginated_response(NodeShape(page, many=True).data)

    @extend_schema(operation_id="node_add", request=NodeBody, responses={201: JoinTokenShape})
    def post(self, request: Request) -> Response:
        require_platform_admin(caller(request))
        body = NodeBody(data=request.data)
        body.is_valid(raise_exception=True)
        node, token = node_add(name=body.validated_data["name"], actor=caller(request).username)
        answer = {"node": _shown(node), "join_token": token}
        return Response(answer, status=status.HTTP_201_CREATED)


class NodeOne(APIView):
    scopes = {"PATCH": Scope.ADMIN}

    @extend_schema(operation_id="node_show", parameters=[ETAG], responses=NodeShape)
    def get(self, request: Request, node: str) -> Response:
        return _answer(_node(node))

    @extend_schema(
        operation_id="node_change",
        request=NodeChange,
        responses=NodeShape,
        parameters=[IF_MATCH, ETAG],
    )
    def patch(self, request: Request, node: str) -> Response:
        """Cordon, label and taint it in one step, from the version that was read."""
        require_platform_admin(caller(request))
        row, wanted = _node(node), asked(NodeChange, request.data)
        with transaction.atomic():
            locked(Node.objects.filter(pk=row.pk))
            _require_seen(request, row, is_needed=True)
            node_change(node=row, wanted=wanted, actor=caller(request).username)
        return _answer(_node(node))


class NodeAction(APIView):
    """Base of the actions below: admins only, on an existing node; with If-Match, only on the
    version that was read."""

    scopes = {"POST": Scope.ADMIN}

    def _asked(self, request: Request, node: str) -> Node:
        require_platform_admin(caller(request))
        row = _node(node)
        _require_seen(request, row, is_needed=False)
        return row


class NodeCordon(NodeAction):
    @extend_schema(operation_id="node_cordon", request=CordonBody, responses=NodeShape)
    def post(self, request: Request, node: str) -> Response:
        row = self._asked(request, node)
        body = CordonBody(data=request.data)
        body.is_valid(raise_exception=True)
        reason = body.validated_data["reason"]
        return Response(
            _shown(node_cordon(node=row, reason=reason, actor=caller(request).username))
        )


class NodeUncordon(NodeAction):
    @extend_schema(operation_id="node_uncordon", request=None, responses=NodeShape)
    def post(self, request: Request, node: str) -> Response:
        row = self._asked(request, node)
        return Response(_shown(node_uncordon(node=row, actor=caller(request).username)))


class NodeRetire(NodeAction):
    @extend_schema(operation_id="node_retire", request=None, responses=NodeShape)
    def post(self, request: Request, node: str) -> Response:
        row = self._asked(request, node)
        return Response(_shown(node_retire(node=row, actor=caller(request).username)))


class NodeJoinToken(NodeAction):
    @extend_schema(operation_id="node_invite", request=None, responses={201: JoinTokenShape})
    def post(self, request: Request, node: str) -> Response:
        row = self._asked(request, node)
        token = node_invite(node=row, actor=caller(request).username)
        answer = {"node": _shown(row), "join_token": token}
        return Response(answer, status=status.HTTP_201_CREATED)


class NodeAllowMassRemoval(NodeAction):
    @extend_schema(operation_id="node_allow_mass_removal", request=None, responses=NodeShape)
    def post(self, request: Request, node: str) -> Response:
        row = self._asked(request, node)
        return Response(_shown(node_allow_mass_removal(node=row, actor=caller(request).username)))


def _node(name: str) -> Node:
    row = nodes().filter(name=name).first()
    if row is None:
        raise Refused("not_found", f"There is no node {name!r}", "", 404)
    return row


def _require_seen(request: Request, node: Node, *, is_needed: bool) -> None:
    """Raises VersionMissing, or VersionStale with the node as it is now."""
    now = _node(node.name)
    seen = version_seen(request, is_needed=is_needed)
    if seen is not None and seen != node_version(now):
        sentence = f"{node.name} was changed since you read it. Look at it again"
        raise VersionStale(NodeShape(now).data, f'"{node_version(now)}"', request.data, sentence)


def _answer(node: Node) -> Response:
    return Response(NodeShape(node).data, headers={"ETag": f'"{node_version(node)}"'})


def _shown(node: Node) -> Any:
    return NodeShape(_node(node.name)).data
