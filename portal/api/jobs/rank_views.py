"""REST views of a gang: its ranks beside each other, and their logs merged into one."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.response import Response

from portal.allocations.selectors import attempts_of
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.job_logs.merging import MAX_LOGS, MergedLines, merged_since, merged_tail
from portal.job_logs.position import LogPosition, parse_position
from portal.job_logs.reading import StoredLine
from portal.job_logs.storage import LogRemoved, open_logs
from portal.jobs.models import Replica
from portal.jobs.selectors import job_visible, replicas_of
from portal.ranks.selectors import Rank, gang_of

MAX_TAIL_LINES = 10_000


class RankSerializer(serializers.Serializer[Rank]):
    rank = serializers.IntegerField(source="number")
    node = serializers.CharField(
        source="replica.location", help_text="or the site, if that keeps its nodes to itself"
    )
    status = serializers.CharField(source="replica.status")
    exit_code = serializers.IntegerField(source="replica.exit_code", allow_null=True)
    failed_first = serializers.BooleanField()
    active_percent = serializers.IntegerField(
        allow_null=True,
        help_text="mean over its devices in the last 5 minutes; null if not measured",
    )
    last_step = serializers.IntegerField(allow_null=True, help_text="of `metric`")
    lags = serializers.SerializerMethodField(
        help_text="why it is a straggler, one sentence each, in English; empty if it is none"
    )
    log_bytes = serializers.IntegerField(source="replica.log_bytes")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_lags(self, rank: Rank) -> list[str]:
        return [message.text for message in rank.lags]


class MergedLogQuerySerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(
        min_value=1, max_value=1 << 31, required=False, help_text="default: the last one"
    )
    after = serializers.CharField(
        max_length=2_000, required=False, help_text="the `next_after` of the response before"
    )
    tail = serializers.IntegerField(
        min_value=0,
        max_value=MAX_TAIL_LINES,
        required=False,
        help_text="begin with so many last lines; without it and `after`, with the first line",
    )

    def validate_after(self, text: str) -> LogPosition:
        position = parse_position(text)
        if position is None:
            raise serializers.ValidationError("Send the next_after of an earlier response")
        return position


class MergedLineSerializer(serializers.Serializer[StoredLine]):
    rank = serializers.IntegerField()
    line = serializers.IntegerField(source="number", help_text="in the log of this rank, from 1")
    at = serializers.SerializerMethodField(help_text="when it arrived; null if not recorded")
    text = serializers.SerializerMethodField(
        help_text="as it was written: it may contain escape sequences of terminals"
    )
    cut_bytes = serializers.IntegerField(help_text="of a long line, what only its own log has")
    is_complete = serializers.BooleanField(help_text="whether the end of the line has arrived")

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_at(self, line: StoredLine) -> datetime | None:
        return datetime.fromtimestamp(line.at / 1000, UTC) if line.at else None

    def get_text(self, line: StoredLine) -> str:
        return line.data.decode(errors="replace")


class JobRanksView(ApiView):
    @extend_schema(
        operation_id="job_ranks",
        responses=list_response(
            RankSerializer,
            attempt=serializers.IntegerField(allow_null=True),
            metric=serializers.CharField(
                allow_blank=True, help_text="whose steps are compared; empty if none is reported"
            ),
        ),
    )
    def get(self, request: ApiRequest, job: str) -> Response:
        """The ranks of the last attempt by node, that of the rank that failed first before the
        others: how active their devices are, how far they have come, and which lag the median."""
        row = job_visible(request.caller, job)
        attempts = attempts_of(row)
        if not attempts:
            return Response({"results": [], "attempt": None, "metric": ""})
        gang = gang_of(row, attempts[-1], timezone.now())
        ranks: Any = gang.ranks
        return Response(
            {
                "results": RankSerializer(ranks, many=True).data,
                "attempt": gang.attempt.number,
                "metric": gang.metric,
            }
        )


class JobMergedLogView(ApiView):
    @extend_schema(
        operation_id="job_merged_log",
        parameters=[MergedLogQuerySerializer],
        responses=list_response(
            MergedLineSerializer,
            attempt=serializers.IntegerField(help_text="0 before the job has one"),
            next_after=serializers.CharField(),
            has_more=serializers.BooleanField(help_text="whether more lines have arrived already"),
            omitted_ranks=serializers.IntegerField(
                help_text=f"beyond the first {MAX_LOGS}; each has its own log"
            ),
        ),
    )
    def get(self, request: ApiRequest, job: str) -> Response:
        """The logs of all ranks as one, by time of arrival, about 512 KiB at once. To follow them,
        call again with `after`."""
        query = request.validated_query(MergedLogQuerySerializer)
        row = job_visible(request.caller, job)
        after: LogPosition = query.get("after") or LogPosition()
        replicas = replicas_of(row, attempt=after.attempt or query.get("attempt"))
        merged = _read(replicas, after, query.get("tail"))
        number = replicas[0].attempt.number if replicas else 0
        lines: Any = merged.lines
        return Response(
            {
                "results": MergedLineSerializer(lines, many=True).data,
                "attempt": number,
                "next_after": str(LogPosition(number, merged.offsets)),
                "has_more": merged.has_more,
                "omitted_ranks": max(0, len(replicas) - MAX_LOGS),
            },
            headers={"Cache-Control": "no-store"},
        )


def _read(replicas: list[Replica], after: LogPosition, tail: int | None) -> MergedLines:
    kept = [replica for replica in replicas[:MAX_LOGS] if replica.log_removed_at is None]
    if replicas and not kept:
        raise LogRemoved(replicas[0])
    is_final = bool(replicas) and not replicas[0].attempt.is_open
    if tail is not None and not after.attempt:
        return _tail(kept, tail, is_final=is_final)
    return merged_since(kept, after.offsets, is_final=is_final)


def _tail(replicas: list[Replica], max_lines: int, *, is_final: bool) -> MergedLines:
    """Without a line whose end has not arrived: it comes whole, or with the rest of an ended log,
    to whoever continues."""
    open_logs(replicas)
    end = merged_tail(replicas, max_lines)
    lines = [line for line in end.lines if line.is_complete]
    return MergedLines(lines, end.offsets, has_more=is_final and len(lines) < len(end.lines))
