"""REST view of the advisor."""

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.advice.config_files import config_text
from portal.advice.question import InvalidQuestion
from portal.advice.reading import read_question
from portal.advice.selectors import advice_for
from portal.api.advice.serializers import AdviceRequestSerializer, ModelAdviceSerializer
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView


class AdviceView(ApiView):
    # It changes nothing; a config.json is too long for an address.
    scopes = {"POST": TokenScope.READ}

    @extend_schema(
        operation_id="advice_show",
        request=AdviceRequestSerializer,
        responses=ModelAdviceSerializer,
    )
    def post(self, request: ApiRequest) -> Response:
        """What a model needs for a task, and which devices of this cluster hold it. Changes
        nothing. An unknown model or architecture is refused, never guessed."""
        body = request.validated_data(AdviceRequestSerializer)
        try:
            question = read_question(body, config_text(request.caller, body))
            advice = advice_for(
                user=request.caller, question=question, project=body.get("project", "")
            )
        except InvalidQuestion as invalid:
            fields = {name: message.text for name, message in invalid.errors.items()}
            raise ValidationError(fields) from None
        return Response(ModelAdviceSerializer(advice).data)
