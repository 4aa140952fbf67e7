"""What a model needs and how long it takes: pure formulas, each with its source."""
