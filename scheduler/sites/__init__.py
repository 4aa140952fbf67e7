"""Sites: the places that carry out attempts."""
