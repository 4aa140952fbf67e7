"""Form fields that several pages share."""

from typing import Any

from django import forms


class SingleLineField(forms.CharField):
    """Printable text of one line; `sentence` says what to write whenever it is not."""

    def __init__(self, *, max_length: int, sentence: Any, **options: Any) -> None:
        self.sentence = sentence
        codes = ("required", "max_length", "null_characters_not_allowed")
        super().__init__(
            max_length=max_length, error_messages=dict.fromkeys(codes, sentence), **options
        )

    def validate(self, value: str) -> None:
        super().validate(value)
        if not value.isprintable():
            raise forms.ValidationError(self.sentence)
