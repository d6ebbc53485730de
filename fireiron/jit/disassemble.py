"""Machine code as text, where nvdisasm is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib import metadata

from fireiron.base.errors import CompileError


def find_nvdisasm() -> str | None:
    """Find the disassembler: in its wheel, on PATH, or in the CUDA toolkit."""
    try:
        for file in metadata.files("nvidia-cuda-nvdisasm") or ():
            if file.name in ("nvdisasm", "nvdisasm.exe"):
                path = str(file.locate())
                if os.access(path, os.X_OK):
                    return path
    except metadata.PackageNotFoundError:
        pass
    found = shutil.which("nvdisasm")
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if found is None and home:
        found = shutil.which("nvdisasm", path=os.path.join(home, "bin"))
    return found


def disassemble(cubin: bytes, *, lines: bool = False) -> str:
    """Disassemble a cubin.

    Args:
        cubin: the machine code.
        lines: whether to name source lines, where the cubin holds them.

    Raises:
        CompileError: `no-nvdisasm`, `nvdisasm`.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise CompileError(
            "no-nvdisasm",
            "nvdisasm, which reads machine code, is not installed",
            fix="pip install nvidia-cuda-nvdisasm",
        )
    # nvdisasm reads a file, never its standard input.
    with tempfile.TemporaryDirectory(prefix="fireiron-") as folder:
        path = os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(cubin)
        command = [tool, "--print-code", *(["--print-line-info"] if lines else []), path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "is deprecated" in done.stderr:
        raise CompileError(
            "nvdisasm",
            f"this nvdisasm has dropped the target: {done.stderr.strip()}",
            fix="pip install 'nvidia-cuda-nvdisasm==13.0.*'",
        )
    if done.returncode:
        raise CompileError(
            "nvdisasm",
            f"nvdisasm fails: {done.stderr.strip() or done.returncode}",
            fix="pip install --upgrade nvidia-cuda-nvdisasm",
        )
    return done.stdout
