"""The answer to a submit: the job, and what is allowed in its request but probably wrong."""

from collections.abc import Iterable

from portal.api.jobs.dry_run_serializers import FieldWarningSerializer
from portal.api.jobs.serializers import JobSerializer
from scheduler.core.request.values import FieldWarning


class SubmittedJobSerializer(JobSerializer):
    """For the schema: the view adds the warnings."""

    warnings = FieldWarningSerializer(
        many=True,
        help_text="what will probably fail, and variables that look like secrets",
    )

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "warnings"]


def warnings_data(warnings: Iterable[FieldWarning]) -> list[dict[str, str]]:
    return [{"field": each.field, "sentence": each.sentence} for each in warnings]
