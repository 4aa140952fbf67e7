"""Templates of requests, and the images that a project may use."""
