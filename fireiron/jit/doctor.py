"""Facts for `fireiron doctor`: what this machine has, and what works on it."""

from __future__ import annotations

import os
import platform
from typing import NamedTuple

from fireiron.base.errors import FireironError
from fireiron.base.version import VERSION
from fireiron.jit import nvrtc12
from fireiron.jit.cache import usage
from fireiron.jit.compile import INSTALL_NVRTC, compiler
from fireiron.jit.disassemble import find_nvdisasm
from fireiron.jit.driver import driver, probe
from fireiron.jit.folder import cache_path, limit


class Fact(NamedTuple):
    """State one fact about the machine, and whether fireiron works with it."""

    what: str
    value: str
    ok: bool


def facts() -> list[Fact]:
    """List Python, fireiron, driver, GPUs, NVRTC, nvdisasm, the cache, and what works with them."""
    found = [
        Fact("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", True),
        Fact("fireiron", VERSION, True),
    ]
    driver_facts = probe()
    if driver_facts.version is None:
        found.append(Fact("driver", f"none: {driver_facts.problem}", False))
    else:
        found.append(Fact("driver", "CUDA {}.{}".format(*driver_facts.version), True))
    found.append(_gpus())
    try:
        made = compiler()
        found.append(Fact("NVRTC", "{}.{}".format(*made.version) + f", {made.path}", True))
        compiles, newer = True, driver_facts.version is not None and driver_facts.version[0] < made.version[0]
    except FireironError as error:
        found.append(Fact("NVRTC", f"none; {error.fix or INSTALL_NVRTC}", False))
        compiles, newer = False, False
    old = nvrtc12.find()
    found.append(Fact("NVRTC 12", old or f"none, so nothing for sm_70 and sm_72; {nvrtc12.INSTALL}", True))
    tool = find_nvdisasm()
    found.append(Fact("nvdisasm", tool or "none; pip install nvidia-cuda-nvdisasm", tool is not None))
    count, nbytes = usage()
    place = cache_path()
    writable = place is not None and _writable(str(place))
    note = "" if writable else ", not writable: set FIREIRON_CACHE_DIR"
    size = f"{nbytes / 1e6:.1f} MB of at most {limit() / 1e6:.0f}"
    found.append(Fact("cache", f"{place or 'in memory'}, {count} kernels, {size}{note}", writable))
    runs = compiles and not driver_facts.problem and not newer
    works = ["check", "simulate", "estimate", "emit"]
    works += ["compile"] if compiles else []
    works += ["sass"] if compiles and tool else []
    works += ["run", "time"] if runs else []
    found.append(Fact("works", ", ".join(works), compiles))
    if not runs:
        why = "the driver is older than NVRTC's CUDA" if newer else driver_facts.problem or "there is no NVRTC"
        found.append(Fact("does not work", f"run and time on a GPU: {why}", False))
    return found


def _gpus() -> Fact:
    found = probe()
    if found.problem:
        return Fact("GPU", "none", False)
    try:
        used = driver()
        names = [
            f"{_text(used.call(used.cu.cuDeviceGetName(128, i)))} (sm_{used.compute_capability(i)})"
            for i in range(found.gpus)
        ]
    except (FireironError, ImportError, RuntimeError) as error:
        return Fact("GPU", f"{found.gpus}, but cuda.bindings fails: {error}", False)
    return Fact("GPU", ", ".join(names), True)


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode(errors="replace")


def _writable(path: str) -> bool:
    """Say whether a folder, or the nearest parent that exists, takes new files."""
    while not os.path.exists(path):
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent
    return os.access(path, os.W_OK)
