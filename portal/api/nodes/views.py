"""REST views of nodes: everyone reads them, platform admins add, cordon and retire them."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.allocations.holding import node_allow_mass_removal
from portal.allocations.retirement import node_retire
from portal.api.nodes.serializers import (
    CordonRequestSerializer,
    JoinTokenSerializer,
    MassRemovalRequestSerializer,
    NodeChangeSerializer,
    NodeRequestSerializer,
    NodeSerializer,
)
from portal.api.protocol.pagination import NamePagination
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.problems import VersionStale
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import ETAG, IF_MATCH, if_match
from portal.api.protocol.views import ApiView
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.inventory.revocation import node_revoke, node_unfreeze
from portal.inventory.selectors import nodes
from portal.inventory.services import (
    node_add,
    node_cordon,
    node_invite,
    node_uncordon,
)
from portal.inventory.versions import node_update, node_version


class NodeList(ApiView, GenericAPIView[Node]):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}
    pagination_class = NamePagination
    serializer_class = NodeSerializer

    @extend_schema(operation_id="node_list", responses=NodeSerializer(many=True))
    def get(self, request: ApiRequest) -> Response:
        """All nodes, by name."""
        page = self.paginate_queryset(nodes().defer("desired", "topology")) or []
        return self.get_paginated_response(NodeSerializer(page, many=True).data)

    @extend_schema(
        operation_id="node_add", request=NodeRequestSerializer, responses={201: JoinTokenSerializer}
    )
    def post(self, request: ApiRequest) -> Response:
        """Add a node. The response shows its join token, this once."""
        name = request.validated_data(NodeRequestSerializer)["name"]
        node, token = node_add(name=name, actor=request.caller.username)
        body = {"node": _node_data(node), "join_token": token}
        return Response(body, status=status.HTTP_201_CREATED)


class NodeDetail(ApiView):
    scopes = {"PATCH": TokenScope.ADMIN}
    permissions = {"PATCH": (IsPlatformAdmin,)}

    @extend_schema(operation_id="node_show", parameters=[ETAG], responses=NodeSerializer)
    def get(self, request: ApiRequest, node: str) -> Response:
        """One node."""
        return _response(_node(node))

    @extend_schema(
        operation_id="node_change",
        request=NodeChangeSerializer,
        responses=NodeSerializer,
        parameters=[IF_MATCH, ETAG],
    )
    def patch(self, request: ApiRequest, node: str) -> Response:
        """Cordon, label and taint a node in one step, from the version you read."""
        row, changes = _node(node), request.validated_data(NodeChangeSerializer)
        with transaction.atomic():
            Node.objects.filter(pk=row.pk).lock_rows()
            _require_version(request, row, is_required=True)
            node_update(node=row, changes=changes, actor=request.caller.username)
        return _response(_node(node))


class NodeAction(ApiView):
    """Base of the actions. With If-Match, only on the version that was read."""

    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    def node(self, request: ApiRequest, name: str) -> Node:
        """The node. Raises Refused(not_found), or VersionStale for another version."""
        row = _node(name)
        _require_version(request, row, is_required=False)
        return row


class NodeCordon(NodeAction):
    @extend_schema(
        operation_id="node_cordon", request=CordonRequestSerializer, responses=NodeSerializer
    )
    def post(self, request: ApiRequest, node: str) -> Response:
        """Take a node out of scheduling. Running work continues."""
        row = self.node(request, node)
        body = request.validated_data(CordonRequestSerializer)
        reason = body["reason"]
        return Response(
            _node_data(node_cordon(node=row, reason=reason, actor=request.caller.username))
        )


class NodeUncordon(NodeAction):
    @extend_schema(operation_id="node_uncordon", request=None, responses=NodeSerializer)
    def post(self, request: ApiRequest, node: str) -> Response:
        """Return a cordoned node to scheduling."""
        row = self.node(request, node)
        return Response(_node_data(node_uncordon(node=row, actor=request.caller.username)))


class NodeRetire(NodeAction):
    @extend_schema(operation_id="node_retire", request=None, responses=NodeSerializer)
    def post(self, request: ApiRequest, node: str) -> Response:
        """Retire an idle node. Its agent is turned away and its name is never used again."""
        row = self.node(request, node)
        return Response(_node_data(node_retire(node=row, actor=request.caller.username)))


class NodeRevoke(NodeAction):
    @extend_schema(operation_id="node_revoke", request=None, responses=NodeSerializer)
    def post(self, request: ApiRequest, node: str) -> Response:
        """Take its key from a node that may be in the wrong hands. It gets no more work; its jobs
        are retried elsewhere once its lease has ended."""
        row = self.node(request, node)
        return Response(_node_data(node_revoke(node=row, actor=request.caller.username)))


class NodeUnfreeze(NodeAction):
    @extend_schema(operation_id="node_unfreeze", request=None, responses=NodeSerializer)
    def post(self, request: ApiRequest, node: str) -> Response:
        """Unfreeze a key that two machines used in turn: the node may say hello again."""
        row = self.node(request, node)
        return Response(_node_data(node_unfreeze(node=row, actor=request.caller.username)))


class NodeJoinToken(NodeAction):
    @extend_schema(operation_id="node_invite", request=None, responses={201: JoinTokenSerializer})
    def post(self, request: ApiRequest, node: str) -> Response:
        """Create a new join token for a node. The response shows it, this once."""
        row = self.node(request, node)
        token = node_invite(node=row, actor=request.caller.username)
        body = {"node": _node_data(row), "join_token": token}
        return Response(body, status=status.HTTP_201_CREATED)


class NodeAllowMassRemoval(NodeAction):
    @extend_schema(
        operation_id="node_allow_mass_removal",
        request=MassRemovalRequestSerializer,
        responses=NodeSerializer,
    )
    def post(self, request: ApiRequest, node: str) -> Response:
        """Let the node end what its document does not name: `held_replicas`, or nothing if it does
        not hold back."""
        row = self.node(request, node)
        shown = request.validated_data(MassRemovalRequestSerializer).get("replicas")
        actor = request.caller.username
        return Response(_node_data(node_allow_mass_removal(node=row, actor=actor, shown=shown)))


def _node(name: str) -> Node:
    row = nodes().filter(name=name).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, f"There is no node {name!r}")
    return row


def _require_version(request: ApiRequest, node: Node, *, is_required: bool) -> None:
    """Raises VersionMissing, or VersionStale with the node as it is now."""
    now = _node(node.name)
    version = if_match(request, is_required=is_required)
    if version is not None and version != node_version(now):
        sentence = f"{node.name} has changed since you read it. Read it again"
        raise VersionStale(
            NodeSerializer(now).data, f'"{node_version(now)}"', request.data, sentence
        )


def _response(node: Node) -> Response:
    return Response(NodeSerializer(node).data, headers={"ETag": f'"{node_version(node)}"'})


def _node_data(node: Node) -> Any:
    return NodeSerializer(_node(node.name)).data
