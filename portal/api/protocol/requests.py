"""The request that every REST view receives: with a signed-in caller and validated input."""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from portal.accounts.models import ApiToken, User

Input = type[serializers.Serializer[Any]]


class ApiRequest(Request):
    """A DRF request whose user is a `User`, for services and selectors that need one."""

    @property
    def caller(self) -> User:
        """The signed-in user. Raises NotAuthenticated."""
        if not isinstance(self.user, User):
            raise NotAuthenticated
        return self.user

    @property
    def token(self) -> ApiToken | None:
        """The API token of this call; None for a browser session."""
        return self.auth if isinstance(self.auth, ApiToken) else None

    def validated_data(self, input_class: Input) -> dict[str, Any]:
        """The body as the serializer reads it. Raises ValidationError, naming the field."""
        return _validated(input_class, self.data)

    def validated_query(self, input_class: Input) -> dict[str, Any]:
        """The query string as the serializer reads it. Raises ValidationError."""
        return _validated(input_class, self.query_params)


def _validated(input_class: Input, data: Any) -> dict[str, Any]:
    serializer = input_class(data=data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
