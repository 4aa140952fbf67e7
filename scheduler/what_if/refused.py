"""A question that makes no sense: one sentence that says why, and the field that is wrong."""


class ChangeRefusedError(ValueError):
    """`field` names the part of the change; "" where it is the whole."""

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field
