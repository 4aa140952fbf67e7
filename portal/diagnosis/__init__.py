"""What made a job fail, with its evidence, and the changed request that mends it."""
