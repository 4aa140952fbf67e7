"""Cases: questions to the formulas as a file of JSON, answered one a line."""
