"""A CUDA program of our own, by the driver API alone: `cuda_client.py WHAT [NUMBER [UID]]`.

Prints JSON lines and flushes each. `devices`: what is visible. `hold SECONDS`: keeps a context and
64 MiB until the time is over or standard input closes. `limits MIB`: allocates up to so much, until
it is refused, and frees it again. `work SECONDS`: runs short kernels. `apart SECONDS UID`: the
same, in a child with a pid namespace of its own, as in a container. `illegal`: writes to an address
that it does not own, which ends its context, and under MPS those of its server's other clients.
Standard library only. Names and constants: cuda.h, sched.h, sys/mount.h.
"""

import ctypes
import json
import os
import select
import sys
import time

MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
HELD_BYTES = 64 << 20
CHUNK_BYTES = 256 << 20
NOWHERE = 0x1000
NEW_PID, NEW_MOUNTS = 0x20000000, 0x20000  # CLONE_NEWPID, CLONE_NEWNS
PRIVATE = 0x44000  # MS_REC | MS_PRIVATE
CYCLES = 20_000_000
BLOCKS, THREADS = 1_024, 256
KERNELS = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 put_address)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [put_address];
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry spin(.param .u64 spin_cycles)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [spin_cycles];
    mov.u64 %rd2, %clock64;
AGAIN:
    mov.u64 %rd3, %clock64;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
"""


class CudaFailure(Exception):
    """A call that the driver refused."""


class Cuda:
    """libcuda with the first visible device's context, as `nvidia-smi` would count a program."""

    def __init__(self, library):
        self.library = library
        self("cuInit", 0)

    def __call__(self, name, *arguments):
        """Raises CudaFailure with the driver's own words."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise CudaFailure(f"{name}: {self.word(code)} ({code})")

    def word(self, code):
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"?").decode()

    def devices(self):
        count = ctypes.c_int()
        self("cuDeviceGetCount", ctypes.byref(count))
        for index in range(count.value):
            device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            self("cuDeviceGet", ctypes.byref(device), index)
            self("cuDeviceGetUuid_v2", uuid, device)
            multiprocessors = ctypes.c_int()
            self("cuDeviceGetAttribute", ctypes.byref(multiprocessors), MULTIPROCESSORS, device)
            yield {
                "device": index,
                "uuid": bytes(uuid).hex(),
                "multiprocessors": multiprocessors.value,
            }

    def open(self):
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return {"free_mib": free.value >> 20, "total_mib": total.value >> 20}

    def allocate(self, size):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def free(self, address):
        self("cuMemFree_v2", address)

    def kernel(self, name):
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), KERNELS)
        self("cuModuleGetFunction", ctypes.byref(kernel), module, name)
        return kernel

    def launch(self, kernel, value, blocks=1, threads=1):
        """Waits for its end."""
        number = ctypes.c_uint64(value)
        words = (ctypes.c_void_p * 1)(ctypes.addressof(number))
        self("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, words, None)
        self("cuCtxSynchronize")


def say(**words):
    print(json.dumps(words | {"at": time.time()}), flush=True)


def devices(cuda, _number):
    found = list(cuda.devices())
    say(count=len(found), devices=found)


def hold(cuda, seconds):
    cuda.open()
    cuda.allocate(HELD_BYTES)
    say(pid=os.getpid(), held_mib=HELD_BYTES >> 20, **cuda.memory())
    select.select([sys.stdin], [], [], seconds)


def limits(cuda, mib):
    cuda.open()
    say(pid=os.getpid(), devices=list(cuda.devices()), **cuda.memory())
    held, refusal = [], ""
    try:
        while len(held) * CHUNK_BYTES < int(mib) << 20:
            held.append(cuda.allocate(CHUNK_BYTES))
    except CudaFailure as refused:
        refusal = str(refused)
    say(allocated_mib=len(held) * CHUNK_BYTES >> 20, refusal=refusal, **cuda.memory())
    for address in held:
        cuda.free(address)


def work(cuda, seconds):
    cuda.open()
    spin = cuda.kernel(b"spin")
    say(pid=os.getpid(), **cuda.memory())
    until, kernels = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        cuda.launch(spin, CYCLES, BLOCKS, THREADS)
        kernels += 1
    say(kernels=kernels)


def into_namespace(uid):
    """Go on in a child with a pid namespace and its own /proc, as user `uid`. The parent ends with
    the child's status."""
    library = ctypes.CDLL(None, use_errno=True)
    must(library.unshare(NEW_PID | NEW_MOUNTS), "unshare")
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    must(library.mount(b"none", b"/", None, PRIVATE, None), "private mounts")
    must(library.mount(b"proc", b"/proc", b"proc", 0, None), "mount /proc")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def must(status, what):
    if status:
        raise OSError(ctypes.get_errno(), what)


def illegal(cuda, _number):
    cuda.open()
    put = cuda.kernel(b"put")
    say(pid=os.getpid())
    cuda.launch(put, NOWHERE)
    say(refusal="")


ACTIONS = {
    "devices": devices,
    "hold": hold,
    "limits": limits,
    "work": work,
    "apart": work,
    "illegal": illegal,
}


def main(words):
    """1 if the driver refused; its words are the last line."""
    try:
        if words[0] == "apart":
            into_namespace(int(words[2]))
        ACTIONS[words[0]](Cuda(ctypes.CDLL("libcuda.so.1")), float(words[1]) if words[1:] else 0.0)
    except (CudaFailure, OSError) as failure:
        say(refusal=str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
