"""Kernels for programs without Python: CUDA source, machine code, a C launcher, and a loader that needs no compiler.

A folder of an export holds, for a kernel `name`:

| file | what |
|---|---|
| `name.cu` | the CUDA, which nvcc and NVRTC compile; what it defines is in a namespace of its own |
| `name.sm_90a.cubin`, ... | machine code, one file an architecture |
| `name.fatbin` | all of the machine code, where NVIDIA's `fatbinary` is installed |
| `name.h` | a C launcher on the CUDA driver API |
| `name.json` | how the kernel is launched, as data |
| `main.c`, `CMakeLists.txt` | an example that loads and launches it |

Where architectures take different source, each has a `.cu` of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.arch import arch as find_arch
from fireiron.base.errors import UsageError
from fireiron.base.version import VERSION
from fireiron.jit.compile import Binary, Compiler
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import CompiledKernel
from fireiron.jit.launcher import example, header
from fireiron.jit.resources import Resources

FORMAT = 1


@attrs.frozen
class Export:
    """Hold what an export wrote.

    Args:
        folder: the folder of the files.
        name: of the kernel.
        files: names in the folder.
        archs: names of the architectures.
    """

    folder: Path
    name: str
    files: tuple[str, ...]
    archs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.folder}: {self.name} for {', '.join(self.archs)}: {', '.join(self.files)}"


def commented(source: str, name: str, arch: str, facts: Mapping[str, str]) -> str:
    """Put a kernel's source in a namespace of its own, below a comment of facts.

    Args:
        source: as the printer gives it.
        name: of the kernel, which stays outside namespaces: it has C linkage.
        arch: the target.
        facts: text of the comment, by its title (`schedule`).
    """
    head = [f"// {name}: made by fireiron {VERSION}"]
    for what, text in facts.items():
        head += [f"// {what}: {line}" if i == 0 else f"//     {line}" for i, line in enumerate(text.splitlines())]
    head.append(f"// Compile: nvcc -std=c++17 -arch={arch} -cubin {name}.cu")
    return (
        "\n".join(head) + f"\n\nnamespace fireiron_{name} {{\n\n{source.rstrip()}\n\n}}  // namespace fireiron_{name}\n"
    )


def write(folder: str | Path, kernels: Sequence[CompiledKernel], facts: Mapping[str, str]) -> Export:
    """Write one kernel, compiled for one or several architectures.

    Args:
        folder: made where it is missing.
        kernels: one for each architecture, all of one interface.
        facts: what the comment in the source says, by its title: the schedule's text, its digest.

    Raises:
        UsageError: `export-interface` where kernels are launched differently, `export-folder`.
    """
    first = kernels[0]
    name = first.name
    for other in kernels[1:]:
        if other.interface != first.interface:
            raise UsageError(
                "export-interface",
                f"{name} is launched differently on {first.binary.arch} and {other.binary.arch}",
                fix="export these architectures to folders of their own",
            )
    sources: dict[str, list[str]] = {}
    files: dict[str, str | bytes] = {}
    for kernel in kernels:
        sources.setdefault(kernel.source, []).append(kernel.binary.arch)
        files[f"{name}.{kernel.binary.arch}.cubin"] = kernel.cubin
    by_arch: dict[str, str] = {}
    for number, (source, archs) in enumerate(sources.items()):
        file = f"{name}.cu" if not number else f"{name}.{archs[0]}.cu"
        files[file] = commented(source, name, archs[0], facts)
        by_arch |= dict.fromkeys(archs, file)
    files[f"{name}.h"] = header(first.interface, facts)
    files["main.c"], files["CMakeLists.txt"] = example(first.interface, first.binary.arch)
    record = {
        "format": FORMAT,
        "fireiron": VERSION,
        "name": name,
        "facts": dict(facts),
        "interface": first.interface.to_json(),
        "binaries": {
            kernel.binary.arch: {
                "cubin": f"{name}.{kernel.binary.arch}.cubin",
                "source": by_arch[kernel.binary.arch],
                "resources": attrs.asdict(kernel.resources),
            }
            for kernel in kernels
        },
    }
    files[f"{name}.json"] = json.dumps(record, indent=2) + "\n"
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (place / file).write_bytes(data)
    except OSError as error:
        raise UsageError(
            "export-folder", f"{place} cannot be written: {error.strerror}", fix="name a folder that you can write to"
        ) from None
    names = [*files, *_fatbin(place, name, kernels)]
    return Export(place, name, tuple(names), tuple(kernel.binary.arch for kernel in kernels))


def _fatbin(place: Path, name: str, kernels: Sequence[CompiledKernel]) -> list[str]:
    """Put the machine code of several architectures into one file, where the tool is installed."""
    tool = shutil.which("fatbinary")
    if tool is None or len(kernels) < 2:
        return []
    file = f"{name}.fatbin"
    images = [
        f"--image3=kind=elf,sm={k.binary.arch.removeprefix('sm_')},file={place / f'{name}.{k.binary.arch}.cubin'}"
        for k in kernels
    ]
    made = subprocess.run([tool, "-64", f"--create={place / file}", *images], capture_output=True, check=False)
    return [file] if made.returncode == 0 else []


def load(folder: str | Path, arch: str | None = None) -> CompiledKernel:
    """Load an exported kernel: no schedule is lowered, and no compiler is needed.

    Args:
        folder: of an export.
        arch: the architecture; None for the newest that runs on the GPU at hand, or the newest at all without one.

    Raises:
        UsageError: `no-export` where the folder holds none, `export-arch` where it has no code for the architecture.
    """
    place = Path(folder)
    try:
        (path,) = place.glob("*.json")
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        interface = Interface.from_json(record["interface"])
        binaries: dict[str, Any] = record["binaries"]
        chosen = _chosen(list(binaries), arch)
        found = binaries[chosen.name]
        source = (place / found["source"]).read_text(encoding="utf-8")
        cubin = (place / found["cubin"]).read_bytes()
        used: dict[str, Any] = found["resources"]
        used["warnings"] = tuple(used["warnings"])
        resources = Resources(**used)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "no-export",
            f"{place} holds no exported kernel: {type(error).__name__}: {error}",
            fix="name the folder that fireiron export wrote",
        ) from None
    binary = Binary(record["name"], chosen.name, source, "", cubin, "", resources, Compiler((0, 0), "", ""))
    return CompiledKernel(binary, interface)


def _chosen(names: Sequence[str], wanted: str | None) -> Arch:
    from fireiron.jit.driver import driver, probe

    archs = sorted(map(find_arch, names), key=lambda one: one.number)
    number = None if probe().problem else driver().compute_capability(0)
    if wanted is not None:
        fits = [one for one in archs if one.name == find_arch(wanted).target.name]
    else:
        fits = [one for one in archs if number is None or one.runs_on(number)]
    if not fits:
        raise UsageError(
            "export-arch",
            f"there is no machine code for {wanted or f'sm_{number}'}",
            fix=f"export for it; there is: {', '.join(names)}",
        )
    return fits[-1]
