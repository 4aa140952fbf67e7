"""Every call of the list stands in the simulated driver, and calls beside it are strict."""

from ctypes import byref

import pynvml
import pytest

from agents.simdriver.codes import Code
from agents.simdriver.library import symbols

# The functions that the agent and its tools need, by the beginning of their names.
NAMES = {
    "nvml": """
        InitWithFlags Shutdown ErrorString""",
    "nvmlSystemGet": """
        DriverVersion NVMLVersion CudaDriverVersion CudaDriverVersion_v2 ProcessName""",
    "nvmlDeviceGet": """
        Count_v2 HandleByIndex_v2 HandleByUUID HandleByPciBusId_v2 Name UUID Index MinorNumber
        Serial Brand Architecture CudaComputeCapability PciInfo_v3 MemoryInfo MemoryInfo_v2
        BAR1MemoryInfo UtilizationRates ProcessUtilization Temperature TemperatureV PowerUsage
        EnforcedPowerLimit PowerManagementLimitConstraints TotalEnergyConsumption ClockInfo
        MaxClockInfo CurrentClocksEventReasons PerformanceState PersistenceMode ComputeMode EccMode
        TotalEccErrors RemappedRows ComputeRunningProcesses_v3 GraphicsRunningProcesses_v3
        MPSComputeRunningProcesses_v3 SupportedEventTypes FieldValues Attributes_v2
        VirtualizationMode
        MigMode MaxMigDeviceCount MigDeviceHandleByIndex DeviceHandleFromMigDeviceHandle
        GpuInstanceId ComputeInstanceId GpuInstanceProfileInfo GpuInstanceProfileInfoV
        GpuInstanceProfileInfoByIdV GpuInstanceRemainingCapacity GpuInstancePossiblePlacements_v2
        GpuInstances GpuInstanceById
        TopologyCommonAncestor TopologyNearestGpus P2PStatus NvLinkState NvLinkVersion
        NvLinkCapability NvLinkRemotePciInfo_v2 NvLinkRemoteDeviceType CpuAffinity
        CpuAffinityWithinScope MemoryAffinity NumaNodeId GpuFabricInfoV""",
    "nvmlDeviceSet": """
        ComputeMode PersistenceMode MigMode PowerManagementLimit""",
    "nvmlDevice": """
        IsMigDeviceHandle CreateGpuInstance CreateGpuInstanceWithPlacement RegisterEvents""",
    "nvmlGpuInstance": """
        GetInfo Destroy GetComputeInstanceProfileInfo GetComputeInstanceProfileInfoV
        GetComputeInstanceRemainingCapacity GetComputeInstancePossiblePlacements
        CreateComputeInstance CreateComputeInstanceWithPlacement GetComputeInstances
        GetComputeInstanceById""",
    "nvmlComputeInstance": """
        GetInfo_v2 Destroy""",
    "nvmlEventSet": """
        Create Free Wait_v2""",
    "nvmlGpm": """
        QueryDeviceSupport SampleAlloc SampleFree SampleGet MigSampleGet MetricsGet""",
}
LIST = [begin + name for begin, names in NAMES.items() for name in names.split()]


def code_of(call, *arguments) -> int:
    with pytest.raises(pynvml.NVMLError) as refused:
        call(*arguments)
    return refused.value.value


@pytest.mark.parametrize("name", LIST)
def test_every_call_of_the_list_is_there_and_can_be_given_attributes(node, name):
    call = getattr(pynvml.nvmlLib, name)
    call.restype = None  # pynvml does so for nvmlErrorString


def test_no_call_is_named_as_nvml_does_not():
    assert all(name.startswith("nvml") for name in symbols())


def test_a_call_that_nobody_wrote_raises_attribute_error(node):
    with pytest.raises(AttributeError):
        pynvml.nvmlLib.nvmlDeviceGetLuck  # noqa: B018 - the look-up is what is tested


@pytest.mark.parametrize("name", sorted(set(LIST) - {"nvmlInitWithFlags", "nvmlErrorString"}))
def test_without_a_session_no_call_answers(node, name):
    pynvml.nvmlShutdown()
    assert getattr(pynvml.nvmlLib, name)() == Code.UNINITIALIZED
    pynvml.nvmlInit()


@pytest.mark.parametrize(
    "call",
    [
        pynvml.nvmlDeviceGetSerial,
        pynvml.nvmlDeviceGetBrand,
        pynvml.nvmlDeviceGetEccMode,
        pynvml.nvmlDeviceGetComputeMode,
        pynvml.nvmlDeviceGetPersistenceMode,
        pynvml.nvmlDeviceGetVirtualizationMode,
        pynvml.nvmlDeviceGetPowerManagementLimitConstraints,
        pynvml.nvmlDeviceGetAttributes_v2,
        pynvml.nvmlDeviceGetMaxMigDeviceCount,
        pynvml.nvmlDeviceGetSupportedEventTypes,
        lambda gpu: pynvml.nvmlDeviceGetTopologyNearestGpus(gpu, 50),
        lambda gpu: pynvml.nvmlDeviceGetNvLinkCapability(gpu, 0, 0),
        lambda gpu: pynvml.nvmlDeviceSetPersistenceMode(gpu, 1),
        lambda gpu: pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gpu, 0),
        lambda gpu: pynvml.nvmlGpuInstanceGetComputeInstanceById(gpu, 0),
    ],
)
def test_no_handle_is_an_invalid_argument(node, call):
    assert code_of(call, None) == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("symbol", "struct", "version"),
    [
        ("nvmlDeviceGetGpuInstanceProfileInfoByIdV", "c_nvmlGpuInstanceProfileInfo_v2_t", 1),
        ("nvmlDeviceGetGpuInstanceProfileInfoV", "c_nvmlGpuInstanceProfileInfo_v2_t", 0),
        ("nvmlDeviceGetMemoryInfo_v2", "c_nvmlMemory_v2_t", 0x03000028),
    ],
)
def test_a_struct_of_another_version_is_refused(gpu, symbol, struct, version):
    call, info = getattr(pynvml.nvmlLib, symbol), getattr(pynvml, struct)()
    info.version = version
    arguments = (gpu, byref(info)) if "Memory" in symbol else (gpu, 19, byref(info))
    assert call(*arguments) == Code.ARGUMENT_VERSION_MISMATCH


def test_a_profile_is_found_by_its_id_and_not_by_its_query_index(gpu):
    ask = pynvml.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoByIdV
    info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
    info.version = pynvml.nvmlGpuInstanceProfileInfo_v2
    assert ask(gpu, 9, byref(info)) == Code.SUCCESS
    assert (info.id, info.sliceCount, info.name) == (9, 3, "MIG 3g.71gb")
    assert ask(gpu, 2, byref(info)) == Code.INVALID_ARGUMENT, "2 is the query index of the same"
