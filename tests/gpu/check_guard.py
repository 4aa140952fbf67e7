"""The suite cannot change a GPU even if one of its checks wanted to."""

import pynvml
import pytest

from tests.gpu import guard

CHANGES = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceSetComputeMode",
    "nvmlDeviceSetPersistenceMode",
    "nvmlDeviceSetPowerManagementLimit",
    "nvmlDeviceSetGpuLockedClocks",
    "nvmlDeviceResetGpuLockedClocks",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceDestroy",
    "nvmlComputeInstanceDestroy",
    "nvmlDeviceClearEccErrorCounts",
    "nvmlDeviceModifyDrainState",
    "nvmlDeviceFreezeNvLinkUtilizationCounter",
)
# Of drivers to come, or of no pynvml: refused all the same, because nobody listed them.
UNHEARD_OF = (
    "nvmlDeviceRemoveGpu_v2",
    "nvmlDeviceHibernate",
    "nvmlSystemDefragment",
    "nvmlDeviceGetAndClearErrors",
    "nvmlDeviceReadWritePRM_v1",
    "nvmlGpmSetStreamingEnabled",
)


@pytest.fixture
def tried():
    """What was refused inside is what this check wants: it is not held against it."""
    assert guard.is_closed()
    before = list(guard.refused)
    yield guard.refused
    guard.refused[:] = before


def test_every_function_that_is_not_known_to_read_is_barred(tried):
    names = guard.changing()
    assert {*CHANGES} <= {*names}
    for name in names:
        with pytest.raises(guard.Forbidden, match=name):
            getattr(pynvml, name)()
    assert tried[-len(names) :] == names


@pytest.mark.parametrize("symbol", [*CHANGES, *UNHEARD_OF])
def test_no_look_up_of_a_symbol_leads_to_the_driver(symbol, tried):
    with pytest.raises(guard.Forbidden, match=symbol):
        pynvml._nvmlGetFunctionPointer(symbol)
    assert tried[-1] == symbol


@pytest.mark.parametrize("symbol", [*CHANGES, *UNHEARD_OF])
def test_the_loaded_library_itself_only_reads(symbol, tried):
    pynvml.nvmlInit()
    try:
        with pytest.raises(guard.Forbidden, match=symbol):
            getattr(pynvml.nvmlLib, symbol)
    finally:
        pynvml.nvmlShutdown()
    assert tried[-1] == symbol


def test_a_refusal_is_not_swallowed_by_code_that_forgives_errors(tried):
    def forgiving():
        try:
            pynvml.nvmlDeviceSetMigMode(None, 1)
        except Exception:
            return "forgiven"
        return "done"

    with pytest.raises(guard.Forbidden):
        forgiving()


@pytest.mark.parametrize(
    "symbol",
    ["nvmlSystemGetTopologyGpuSet", "nvmlDeviceGetMigMode", "nvmlGpmSampleGet", "nvmlShutdown"],
)
def test_reading_stays_open(symbol):
    assert guard.reads(symbol)
