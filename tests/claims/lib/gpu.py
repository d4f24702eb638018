"""Finds the parts that the GPU claims need on a machine: a driver with a GPU, our plugin, PyTorch,
NVIDIA's tools.

As a program it prints the driver's answer as one JSON object: the driver is asked by a process of
its own, so that nothing of it stays in the claim, and a driver that hangs costs a minute.
"""
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys

# Dense peak of bf16 products in FLOP/s, and bytes/s of memory, by NVIDIA's data sheets; the longest
# name that fits counts.
PEAKS = {"H200": (989e12, 4.8e12), "H100 PCIe": (756e12, 2.0e12), "H100": (989e12, 3.35e12), "GH200": (989e12, 4.0e12),
         "H20": (148e12, 4.0e12), "B200": (2250e12, 8.0e12), "A100": (312e12, 2.04e12), "A10": (125e12, 0.6e12),
         "A10G": (70e12, 0.6e12), "L4": (121e12, 0.3e12), "L40S": (362e12, 0.864e12), "RTX 4090": (165e12, 1.008e12),
         "T4": (65e12, 0.32e12), "V100": (112e12, 0.9e12)}
ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR = 75, 76  # of enum CUdevice_attribute


def load_driver():
    """libcuda.so.1, where the loader finds it or scripts/gpu-check does; None."""
    for folder in [""] + toolkit_folders():
        try:
            return ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
        except OSError:
            pass
    return None


def ask_driver():
    """{"missing": text} or {"gpus": [{name, bytes, sm}], "cuda": version of the driver}, as
    libcuda.so.1 says."""
    cuda = load_driver()
    if cuda is None:
        return {"missing": "an NVIDIA driver (libcuda.so.1)"}
    text, number = ctypes.c_char_p(), ctypes.c_int()
    rc = cuda.cuInit(0)
    if rc != 0:
        cuda.cuGetErrorString(rc, ctypes.byref(text))
        return {"missing": "a GPU: cuInit says %s (%d)" % ((text.value or b"?").decode(), rc)}
    cuda.cuDeviceGetCount(ctypes.byref(number))
    gpus = []
    for i in range(number.value):
        device, name, size = ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.c_size_t()
        major, minor = ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), i)
        cuda.cuDeviceGetName(name, 100, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), ATTRIBUTE_MAJOR, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), ATTRIBUTE_MINOR, device)
        gpus.append({"name": name.value.decode(), "bytes": size.value, "sm": 10 * major.value + minor.value})
    cuda.cuDriverGetVersion(ctypes.byref(number))
    if not gpus:
        return {"missing": "a GPU: the driver knows none"}
    return {"gpus": gpus, "cuda": "%d.%d" % (number.value // 1000, number.value % 1000 // 10)}


def look(timeout=60):
    """ask_driver() in another process; {"missing": text} also where that fails."""
    try:
        r = subprocess.run([sys.executable, os.path.abspath(__file__)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"missing": "a GPU: the driver does not answer within %d s" % timeout}
    if r.returncode != 0:
        return {"missing": "a GPU: asking the driver ended with status %d" % r.returncode}
    return json.loads(r.stdout)


def peaks(name):
    """(FLOP/s in bf16, bytes/s) of a GPU by its name; (None, None) for one that is not known."""
    words = " " + name.replace("-", " ") + " "
    found = [k for k in PEAKS if " %s " % k in words]
    return PEAKS[max(found, key=len)] if found else (None, None)


def plugin(build):
    """Path of our CUDA backend in a built tree or bundle; None: it has none."""
    found = [p for d in ("", ".libs", "real") for p in [os.path.join(build, d, "hspmd-cuda.so")] if os.path.exists(p)]
    return found[0] if found else None


# ---- PyTorch and NVIDIA's tools ------------------------------------------------------------------

PROBE = "import torch; print(torch.__version__, int(torch.cuda.is_available()))"


def torch_python(seconds=120):
    """(interpreter whose PyTorch sees a GPU, version), or (None, the missing part)."""
    seen, why = [], "PyTorch"
    for python in (sys.executable, shutil.which("python3"), "/usr/bin/python3"):
        if not python or python in seen:
            continue
        seen.append(python)
        try:
            r = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            why = "PyTorch that loads: that of %s takes more than %d seconds" % (python, seconds)
            continue
        if r.returncode == 0:
            version, sees = r.stdout.split()[-2:]
            if sees == "1":
                return python, version
            why = "PyTorch that sees the GPU (%s of %s does not)" % (version, python)
    return None, why


def toolkit_folders():
    """Where CUDA's libraries may lie that the loader does not find by itself."""
    out = [d for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d]
    out += [os.path.join(os.environ[v], d) for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)
           for d in ("lib64", "lib", "extras/CUPTI/lib64")]
    nvcc = shutil.which("nvcc")
    if nvcc:
        home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
        out += [os.path.join(home, d) for d in ("lib64", "extras/CUPTI/lib64")]
    for home in ["/usr/local/cuda"] + sorted(glob.glob("/usr/local/cuda-*"), reverse=True):
        out += [os.path.join(home, d) for d in ("lib64", "extras/CUPTI/lib64")]
    for folder in sys.path:
        out += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib")))
    return out + ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"] + \
        sorted(glob.glob("/usr/lib/*-linux-gnu/nvidia/current"))


def libraries(name):
    """Paths of a library, such as libnccl.so.2: those of the folders above and of the loader, each
    file once."""
    loader = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    paths = [os.path.join(d, name) for d in toolkit_folders()]
    paths += [l.split(" => ")[1] for l in loader.splitlines() if l.split()[0] == name and " => " in l]
    return list(dict.fromkeys(os.path.realpath(p) for p in paths if os.path.exists(p)))


def tool(name):
    """Path of one of NVIDIA's programs; None."""
    found = [shutil.which(name)] + [os.path.join(os.path.dirname(d), "bin", name) for d in toolkit_folders()]
    found += sorted(glob.glob("/opt/nvidia/*/*/" + name), reverse=True)
    return next((p for p in found if p and os.access(p, os.X_OK) and os.path.isfile(p)), None)


if __name__ == "__main__":
    print(json.dumps(ask_driver()))
