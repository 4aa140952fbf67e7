"""Makes the logs again that programs on this machine write when they really fail:

    .venv/bin/python -m tests.support.failure_logs.make [NAME …]

It needs root on Linux (small file systems, namespaces, a memory cgroup of version 1), gcc and g++,
Java and Node. A program is the folder of its name below `programs/`, if it has one. Paths of this
machine become /opt/conda and /job.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.failure_logs import FOLDER

SECONDS = 60
PROGRAMS = Path(__file__).parent / "programs"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
TRAIN = "exec $PY train.py"
NOBODY = "chmod 755 .; exec setpriv --reuid 65534 --regid 65534 --clear-groups "
SMALL_SHM = "exec unshare -m bash -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm; exec $PY train.py'"
SMALL_DISK = "mkdir out; exec unshare -m bash -c 'mount -t tmpfs -o size=1m tmpfs out; {}'"
CGROUP = (
    "d=/sys/fs/cgroup/memory/failure-log-$$; mkdir $d; echo 64M > $d/memory.limit_in_bytes; "
    "bash -c 'echo $$ > '$d'/cgroup.procs; exec $PY train.py'; code=$?; rmdir $d; exit $code"
)
RANKS = "for r in 0 1 2 3; do $PY train.py $r & done; wait -n; code=$?; wait; exit $code"
LIBRARY = (
    "gcc -shared -fPIC -o libcudart.so.11.0 -Wl,-soname,libcudart.so.11.0 library.c; "
    "gcc -o program main.c ./libcudart.so.11.0; rm libcudart.so.11.0; exec ./program"
)

# By name: the cause, and a line for bash, where PY is the interpreter.
RECIPES: dict[str, tuple[str, str]] = {
    "python_key_error": ("exception", TRAIN),
    "python_raise_from": ("exception", TRAIN),
    "python_handled_before": ("assertion", TRAIN),
    "python_during_handling": ("exception", TRAIN),
    "python_recursion": ("exception", TRAIN),
    "python_syntax_error": ("exception", TRAIN),
    "python_progress_bar": ("exception", TRAIN),
    "python_multiprocessing": ("exception", TRAIN),
    "python_ranks_interleaved": ("exception", RANKS),
    "python_launcher": ("exception", "exec $PY launch.py"),
    "missing_module": ("missing_module", TRAIN),
    "missing_module_run": ("missing_module", "exec $PY -m vllm.entrypoints.openai.api_server"),
    "import_name": ("missing_module", TRAIN),
    "command_not_found_bash": ("command_missing", "accelerate launch train.py"),
    "command_not_found_sh": (
        "command_missing",
        "exec sh -c 'torchrun --nproc-per-node 2 train.py'",
    ),
    "shebang_not_found": ("command_missing", "chmod +x run.sh; ./run.sh"),
    "not_executable": ("not_executable", "./run.sh"),
    "exec_format": ("not_executable", "chmod +x tool; ./tool"),
    "missing_script": ("missing_file", "exec $PY train.py --epochs 3"),
    "missing_file": ("missing_file", TRAIN),
    "missing_library": ("missing_library", LIBRARY),
    "permission": ("permission", NOBODY + "$PY train.py"),
    "read_only": (
        "permission",
        "mkdir out; exec unshare -m bash -c 'mount -t tmpfs -o ro tmpfs out; exec $PY train.py'",
    ),
    "arguments": ("arguments", TRAIN),
    "open_files": ("open_files", "ulimit -n 100; exec $PY train.py"),
    "threads": ("process_limit", NOBODY + "bash -c 'ulimit -u 20; exec /usr/bin/python3 train.py'"),
    "memory_error": ("host_memory", "ulimit -v 600000; exec $PY train.py"),
    "numpy_memory": (
        "host_memory",
        "ulimit -v 4000000; export OPENBLAS_NUM_THREADS=1; exec $PY train.py",
    ),
    "memory_cgroup": ("host_memory", CGROUP),
    "cpp_bad_alloc": (
        "host_memory",
        "g++ -o program program.cc 2>/dev/null; ulimit -v 500000; ./program",
    ),
    "java_heap": ("host_memory", "exec java -Xmx32m Load.java"),
    "node_heap": ("host_memory", "node --max-old-space-size=32 load.js"),
    "shm_bus_error": ("shared_memory", SMALL_SHM),
    "shm_full": ("shared_memory", SMALL_SHM),
    "disk_full_python": ("disk_full", SMALL_DISK.format("exec $PY train.py")),
    "disk_full_dd": ("disk_full", SMALL_DISK.format("dd if=/dev/zero of=out/data bs=1M count=8")),
    "disk_full_tar": (
        "disk_full",
        "head -c 8000000 /dev/zero > a; tar cf a.tar a; "
        + SMALL_DISK.format("tar xf a.tar -C out"),
    ),
    "port_in_use": ("port_in_use", TRAIN),
    "no_name_server": ("network", "exec unshare -n $PY train.py"),
    "curl_no_host": (
        "network",
        "exec unshare -n curl -sSf https://example.org/data.tar -o data.tar",
    ),
    "connection_refused": ("network", TRAIN),
    "http_401": ("sign_in", TRAIN),
    "no_cuda_driver": ("no_gpu", TRAIN),
    "segfault_python": ("crash", "export PYTHONFAULTHANDLER=1; exec $PY train.py"),
    "segfault_silent": ("crash", "$PY -c 'import ctypes; ctypes.string_at(0)'; exit $?"),
    "cpp_exception": ("crash", "g++ -o program program.cc 2>/dev/null; ./program"),
    "division": ("crash", "gcc -o program program.c 2>/dev/null; ./program"),
    "sigterm": ("killed", "echo waiting; kill -TERM $$; sleep 1"),
    "silent_exit": ("exit_code", "echo 'epoch 1 loss 0.3'; exit 3"),
}


def make(name: str, cause: str, shell: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if (PROGRAMS / name).is_dir():
            shutil.copytree(PROGRAMS / name, folder, dirs_exist_ok=True)
        done = subprocess.run(
            ["bash", "-c", shell],
            cwd=folder,
            env={"PATH": PATH, "PY": sys.executable, "LANG": "C.UTF-8", "HOME": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        log = _neutral(done.stdout, folder)
    head = f"# made: make.py, by a program that really failed\n# cause: {cause}\n"
    section = f"=== rank 0, exit {code} ===\n"
    (FOLDER / f"{name}.log").write_bytes(head.encode() + section.encode() + log)


def _neutral(log: bytes, folder: str) -> bytes:
    for path, name in (
        (folder, "/job"),
        (sys.prefix, "/opt/conda"),
        (str(Path(sys.prefix).resolve()), "/opt/conda"),
        (sys.base_prefix, "/usr"),
    ):
        log = log.replace(path.encode(), name.encode())
    return re.sub(rb"0x[0-9a-f]{6,16}", b"0x7f0000001000", log)


def main() -> None:
    for name in sys.argv[1:] or RECIPES:
        make(name, *RECIPES[name])


if __name__ == "__main__":
    main()
