"""Findings from the compiler's log, such as spills, placed at the link whose tile takes the most registers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from fireiron.algebra.arch import Arch
from fireiron.base.errors import CompileError, Finding

if TYPE_CHECKING:
    from fireiron.jit.resources import Resources
    from fireiron.kernel.ir.statements import Kernel

SPILLS = "keep less in registers: a smaller tile a thread, or more registers for its role"
TOUCHED = "let nothing read or write the accumulators between a product and its wait"
IN_FLIGHT = "wait for each chunk's products before the next chunk: pipeline(n, inflight=0)"
TURNS = "let warpgroups run without turns: drop staggered(n)"
# What ptxas says of products that it serialises, and what an author can change. `placed` adds what the kernel shows.
CAUSES = (
    ("insufficient register", SPILLS),
    (
        "defining input registers",
        "load A to shared memory, or give its fragments more slots: pipeline(n) below its split",
    ),
    ("Extern call", "call no function that is not inlined in a microkernel or an op"),
    ("function call", "call no function that is not inlined in a microkernel or an op"),
)
ALLOW = "; compile(allow_spills=True) makes this a finding"


def complaints(log: str, resources: Resources, arch: Arch) -> Iterator[Finding]:
    """Find what makes a kernel slow though it compiles: `setmaxnreg-ignored`, `wgmma-serialised`, `spills`, `stack`.

    ptxas reports the first two as advisories C7500 to C7599, which no flag turns into errors. Advisories of an injected
    fence or wait (C7519, C7517) are no findings: each is one more instruction, and products stay asynchronous.
    """
    for line in log.strip("\0").splitlines():
        if not re.search(r"\bC75\d\d\b", line) or "is injected" in line:
            continue
        if "setmaxnreg" in line:
            yield Finding(
                "setmaxnreg-ignored",
                f"ptxas ignores the register budgets of roles for {arch.name}: {line.strip()}",
                fix="give the kernel launch bounds, and budgets that add up to what its launch gives",
            )
        else:
            yield Finding(
                "wgmma-serialised",
                f"ptxas serialises the asynchronous matrix products for {arch.name}: {line.strip()}",
                fix=next((fix for cause, fix in CAUSES if cause in line), TOUCHED) + ALLOW,
            )
    if resources.spills:
        yield Finding(
            "spills",
            f"registers run out on {arch.name}: a thread spills {resources.spill_stores} B and loads "
            f"{resources.spill_loads} B back",
            fix=SPILLS + ALLOW,
        )
    elif resources.stack:
        yield Finding(
            "stack",
            f"a thread's tensors take {resources.stack} B of its stack on {arch.name}: registers cannot be "
            "indexed at run time, and some access does so",
            fix="unroll the loops that index tensors in registers" + ALLOW,
        )


def insufficient(log: str, arch: Arch) -> CompileError | None:
    """Return the error for ptxas's C7602: one instruction needs more registers than a thread has. None without it."""
    found = re.search(r"\(C7602\) Insufficient registers \((\d+)\).*register target of (\d+)", log)
    if found is None:
        return None
    return CompileError(
        "wgmma-registers",
        f"one matrix product takes {found[2]} registers of a thread on {arch.name}, and a launch of so many threads "
        f"gives each {found[1]}, whatever its role has later (C7602)",
        fix="use tiles with fewer columns, or fewer warpgroups a block",
    )


def placed(finding: Finding, kernel: Kernel, arch: Arch, most: int | None = None) -> Finding:
    """Add to a finding the largest tensor in registers, the link of its tile, and the registers that a thread may have.

    Args:
        finding: a finding of the compiler's log.
        kernel: the compiled kernel.
        arch: the target.
        most: the cap of registers that the caller set.
    """
    from fireiron.estimate.registers import register_cap, registers_of, roles_of
    from fireiron.estimate.resources import Origin, origins
    from fireiron.kernel.analysis.sampling import sites
    from fireiron.kernel.ir.statements import Await, Call, walk

    if finding.code == "setmaxnreg-ignored":
        ring = next((s for s in walk(kernel.body) if isinstance(s, Await)), None)
        return finding if ring is None else attrs.evolve(finding, link=ring.link)
    held = sorted((b for b in kernel.buffers if b.memory.registers), key=registers_of)
    if not held:
        return finding
    largest, cap = held[-1], register_cap(arch, kernel.threads, kernel.minimum_blocks)
    budget = f"{arch.name} gives each of {kernel.threads} threads at most {cap}"
    if most is not None and most < cap:
        budget = f"max_registers={most} is the cap"
    # The product that accumulates there says more than what sets its first value.
    made = {
        view.buffer.name: Origin(site.link, site.path, site.title)
        for site in reversed(sites(kernel.body))
        if isinstance(site.statement, Call) and site.statement.atom.kind == "MatMul"
        for view in site.statement.views[-1:]
    }
    made = {**origins(kernel), **made}
    for role in roles_of(kernel):
        if role.registers and largest.name in origins(kernel, role):
            budget = f"its role {role.name} has {role.registers}"
    origin = made.get(largest.name)
    whose = largest.name if origin is None or not origin.title else f"{largest.name} of {origin.title}"
    return attrs.evolve(
        finding,
        message=f"{finding.message}; {whose} takes {registers_of(largest)} registers of a thread, {budget}",
        fix=finding.fix.replace(TOUCHED, _whose_wait(kernel)),
        link=None if origin is None else origin.link,
        path="" if origin is None else origin.path,
    )


def _whose_wait(kernel: Kernel) -> str:
    """Say in words which part of the schedule lets accumulators be touched while products are in flight."""
    from fireiron.atoms.flights import flying
    from fireiron.kernel.ir.statements import If, Turn, Wait, walk

    statements = list(walk(kernel.body))
    if any(isinstance(s, Wait) and s.pending and flying(s.group) == "products" for s in statements):
        return IN_FLIGHT
    if any(isinstance(s, If) and any(isinstance(x, Turn) for x in s.body) for s in statements):
        return TURNS
    return TOUCHED


def raised(error: CompileError, kernel: Kernel, arch: Arch, most: int | None = None) -> CompileError:
    """Place an error at the link that takes the registers, where the error is about them; see `placed`."""
    if error.code not in ("wgmma-serialised", "wgmma-registers", "setmaxnreg-ignored"):
        return error
    found = placed(Finding(error.code, error.message, fix=error.fix), kernel, arch, most)
    return CompileError(found.code, found.message, fix=found.fix, link=found.link, path=found.path)
