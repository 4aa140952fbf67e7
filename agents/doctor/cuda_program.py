"""What CUDA says in a container, a line each: `python3 -c TEXT [bandwidth]`.

`cuda=` how many devices it counts, or why it does not start. With `bandwidth`, copies on the first
device: `bandwidth=` what is read and written in its memory, and what comes from the host, in GB/s
(10^9 bytes). Standard library only, for any Python from 3.9. Names: cuda.h.
"""

import ctypes
import sys
import time

DEVICE_BYTES, HOST_BYTES, COPIES = 256 << 20, 64 << 20, 10


def main() -> str:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "cuda=absent"
    count = ctypes.c_int()
    code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if code:
        return f"cuda=error {code}"
    lines = [f"cuda={count.value}"]
    if "bandwidth" in sys.argv and count.value:
        try:
            inside, host = bandwidth(cuda)
            lines.append(f"bandwidth={inside:.0f} {host:.1f}")
        except OSError as error:
            lines.append(f"bandwidth={error}")
    return "\n".join(lines)


def bandwidth(cuda: ctypes.CDLL) -> tuple[float, float]:
    """In the device's memory, and from the host. Raises OSError with the name of a refused call."""

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise OSError(f"error {code} of {name}")

    def rate(name: str, target: object, source: object, size: int) -> float:
        """Bytes a second. The first copy is not timed."""
        begin = 0.0
        for number in range(COPIES + 1):
            if number == 1:
                call("cuCtxSynchronize")
                begin = time.perf_counter()
            call(name, target, source, ctypes.c_size_t(size))
        call("cuCtxSynchronize")
        return COPIES * size / (time.perf_counter() - begin)

    device, context, host = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    source, target = ctypes.c_uint64(), ctypes.c_uint64()
    for address in (source, target):
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(DEVICE_BYTES))
    call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(HOST_BYTES))
    inside = 2 * rate("cuMemcpyDtoD_v2", target, source, DEVICE_BYTES)
    return inside / 1e9, rate("cuMemcpyHtoD_v2", target, host, HOST_BYTES) / 1e9


if __name__ == "__main__":
    print(main())  # noqa: T201 - its output is what it is for
