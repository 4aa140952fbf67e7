"""One archive of the database and the store at one moment, and back."""
