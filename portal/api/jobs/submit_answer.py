"""The answer to a submit: the job, and what is allowed in its request but probably wrong."""

from portal.api.jobs.dry_run_serializers import FieldWarningSerializer
from portal.api.jobs.serializers import JobSerializer


class SubmittedJobSerializer(JobSerializer):
    """For the schema: the view adds the warnings."""

    warnings = FieldWarningSerializer(
        many=True,
        help_text="what will probably fail, and variables that look like secrets",
    )

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "warnings"]
