"""The Python that runs the peer."""

import os
import pathlib
import subprocess
import sys
import venv

PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers"

# What libtorch of the wheel wants besides a CUDA toolkit's libraries, also
# without a GPU.
_BESIDE_A_TOOLKIT = ["nvidia-cufile==1.15.1.6", "nvidia-cusparselt-cu13==0.8.0",
                     "nvidia-nvshmem-cu13==3.4.5"]
_PURE = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec"]


def _toolkit():
    """lib64 of an installed CUDA 13, or None."""
    home = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    return home / "lib64" if (home / "lib64/libcublas.so.13").exists() else None


def variables():
    """The environment of a run of the peer."""
    result = dict(os.environ)
    if _toolkit():
        paths = [str(_toolkit()), result.get("LD_LIBRARY_PATH", "")]
        result["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    return result


def _works(python):
    done = subprocess.run([str(python), "-c", "import torch.distributed.pipelining"],
                          env=variables(), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def prepare(arguments):
    """Sets arguments.python to one that has PyTorch."""
    if arguments.python:
        if not _works(arguments.python):
            sys.exit(f"{arguments.python} cannot import torch.distributed.pipelining")
        return
    folder = pathlib.Path(arguments.environment)
    arguments.python = str(folder / "bin/python")
    if folder.exists() and _works(arguments.python):
        return
    print(f"making a virtual environment with PyTorch in {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    pip = [arguments.python, "-m", "pip", "install", "--quiet"]
    requirements = (PEERS / "requirements.txt").read_text().split()
    wanted = [each for each in requirements if "==" in each]
    if _toolkit():
        subprocess.run([*pip, "--no-deps", *wanted, *_BESIDE_A_TOOLKIT], check=True)
        subprocess.run([*pip, *_PURE], check=True)
    else:
        subprocess.run([*pip, *wanted], check=True)
    if not _works(arguments.python):
        sys.exit(f"PyTorch was installed in {folder}, but cannot be imported")


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"
