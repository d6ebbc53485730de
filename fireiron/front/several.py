"""Products that several launches compute faster than one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fireiron.front.chain import MatMulChain

if TYPE_CHECKING:
    from fireiron.front.parts_of_k import Parts
    from fireiron.front.realigned import Launches

    Several: TypeAlias = Launches | Parts


def compiled_for(spec: MatMulChain, arch: str | None = None) -> Several | None:
    """Compile the launches of a product for the GPU; None where one is as fast, or there is no GPU.

    Args:
        spec: what `matmul(...)` gives.
        arch: the target; the spec's, else the GPU's, where None.

    Raises:
        CompileError: as `compile` does.
    """
    from fireiron.front.host import without_gpu
    from fireiron.front.parts_of_k import may_part
    from fireiron.front.realigned import may_copy

    copies, parts = may_copy(spec), may_part(spec)
    if not (copies or parts) or without_gpu():
        return None
    from fireiron.front.best import compiled, target_of
    from fireiron.front.parts_of_k import in_parts, parts_from
    from fireiron.front.realigned import launches_of, realigned

    target = target_of(spec, arch)
    if copies and (plan := realigned(spec, target)) is not None:
        return launches_of(plan, lambda each: each.compile(arch), lambda: compiled(spec))
    if parts and (plan := in_parts(spec, target)) is not None:
        return parts_from(plan, spec, lambda each: each.compile(arch), lambda: compiled(spec))
    return None
