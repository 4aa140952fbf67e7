class UnknownInput(ValueError):
    """An input that is missing, not known or out of its range; the text says which and what is."""
