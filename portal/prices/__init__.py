"""What an hour of a GPU or slice costs, as platform admins set it."""
