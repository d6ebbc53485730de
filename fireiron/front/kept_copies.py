"""The choice of one launch or several for a product, kept on disk: no schedule is chosen, built or lowered again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import attrs

from fireiron.front.chain import MatMulChain
from fireiron.front.realigned import Copies, Plan, copy_of, of_copies

if TYPE_CHECKING:
    from fireiron.front.several import Kernel
    from fireiron.front.verbs import Schedule
    from fireiron.jit.kernel import CompiledKernel

COPIES = ("A", "B", "C")  # matrices that are copied, in the order of the kept digests


@attrs.frozen(eq=False)
class Kept:
    """Hold what the disk holds for a product: the kernels of its launches, None where one launch is as fast."""

    copies: Copies | None


def kept_copies(spec: MatMulChain, arch: str, whole: Callable[[], Kernel]) -> Kept | None:
    """Return what a process kept for a product; None where the disk lacks the choice or one of the kernels.

    Args:
        spec: the result of `matmul(...)`; some lines of its matrices do not start at multiples of 16 bytes.
        arch: the target.
        whole: see `Several`.
    """
    from fireiron.front.best import kept_kernel
    from fireiron.jit.choices import kept_choice

    key, product = _key(spec, arch), of_copies(spec)
    facts = None if key is None else kept_choice(key)
    digests = None if facts is None else facts.get("copies")
    if not isinstance(digests, dict):
        return None
    if not digests:
        return None if _key(product, arch) is None else Kept(None)
    found = kept_kernel(product, arch)
    named = cast("dict[str, object]", digests)
    copies = [_from_disk(spec, product, place, named.get(name), arch) for place, name in enumerate(COPIES)]
    if found is None or any(copy is None and name in named for copy, name in zip(copies, COPIES, strict=True)):
        return None
    a, b, back = copies
    return Kept(Copies(found, whole, (a, b), back))


def keep_copies(spec: MatMulChain, arch: str, plan: Plan | None) -> None:
    """Keep the choice for a product: the digests of the schedules that copy, none where one launch is as fast."""
    from fireiron.front.digest import digest
    from fireiron.jit.choices import keep_choice

    key = _key(spec, arch)
    if key is None or _key(of_copies(spec), arch) is None:
        return
    schedules = () if plan is None else zip(COPIES, (*plan.copies, plan.back), strict=True)
    keep_choice(key, {"copies": {
        name: digest(each.program, each.links, each.name) for name, each in schedules if each is not None
    }})  # fmt: skip


def _key(spec: MatMulChain, arch: str) -> str | None:
    from fireiron.front.best import key_of_model

    found = key_of_model(spec, arch)
    return None if found is None else f"copies\n{found}"


def _from_disk(spec: MatMulChain, product: MatMulChain, place: int, digest: object, arch: str) -> CompiledKernel | None:
    """Return the kernel that copies a matrix, None where the disk has none."""
    from fireiron.algebra.arch import arch as find_arch
    from fireiron.jit.build import from_disk

    def simulator(arrays: Any, sizes: Any, numbers: Any) -> None:
        from fireiron.front.host import simulated

        schedule = cast("Schedule", copy_of(spec, product, place))
        simulated(schedule.lowered(arch), arrays, sizes, numbers)

    return from_disk(digest, find_arch(arch), simulator=simulator) if isinstance(digest, str) else None
