"""A container with a share of DEVICE, as the tests with and without an engine ask for it."""

from tests.contract.replicas import a_replica
from tests.unit.mps.stage import a_share

DEVICE = "GPU-5a1d"
NOBODY = 65_534


def a_shared(program="pass", **fields):
    return a_replica(program, project="p-1", devices=(a_share(DEVICE, 40, 8_000),), **fields)
