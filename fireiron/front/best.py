"""The best schedule known for a product: recorded, near one that is, or the model's choice; and a call that uses it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.base.errors import CheckError, FireironError
from fireiron.base.link import here
from fireiron.front.matmul import MatMulChain

if TYPE_CHECKING:
    from fireiron.jit.kernel import CompiledKernel
    from fireiron.tune.candidates import Candidate, Preset
    from fireiron.tune.lookup import Index
    from fireiron.tune.machine import Machine
    from fireiron.tune.records import Record

MODEL_BUDGET_S = 3.0  # of a first choice without records
FEW_POINTS = 24  # of a preset whose default is not legal
MOST_CHOICES = 4096


@attrs.frozen(eq=False)
class Choice:
    """Hold what was chosen for a product, and why.

    Args:
        schedule: finished.
        candidate: the preset and its keywords.
        why: in words.
        record: what was measured, None for the model's choice.
        modelled_us: what the model says, None where it was not asked.
    """

    schedule: Any
    candidate: Candidate
    why: str
    record: Record | None = None
    modelled_us: float | None = None

    @property
    def point(self) -> str:
        """Write the call as Python."""
        return str(self.candidate)


_choices: dict[Any, Choice] = {}


def best(spec: MatMulChain, arch: str | None = None) -> Any:
    """Give the best schedule known for a product.

    A schedule that was recorded for the problem on this device, else that of the nearest problem, else the one that
    the cost model puts first. The answer is kept: the next one for an equal spec takes microseconds.

    Args:
        spec: what `matmul(...)` gives.
        arch: the target; the spec's, else the GPU's, else sm_90a where None.

    Raises:
        UsageError: `not-a-product`. CheckError: `nothing-legal` where no preset takes the problem.

    Example:
        >>> from fireiron import matmul
        >>> best(matmul(256, 256, 64), "sm_80").residual.closed
        True
    """
    program = spec.program
    found = _choices.get((arch, program.arch, program.steps[0].spec))
    return (choose(spec, arch) if found is None else found).schedule


def choose(spec: MatMulChain, arch: str | None = None) -> Choice:
    """Give the best schedule known, and say why it was chosen; see `best`."""
    program = spec.program
    key = arch, program.arch, program.steps[0].spec
    found = _choices.get(key)
    if found is None:
        try:
            found = _chosen(spec, arch)
        except FireironError as error:
            raise error.located(here()) from None
        if len(_choices) >= MOST_CHOICES:
            _choices.clear()
        _choices[key] = found
    return found


def forget() -> None:
    """Forget all choices: records that were added since are read again."""
    _choices.clear()
    _index.cache_clear()
    _kernel.cache_clear()


def _chosen(spec: MatMulChain, arch: str | None) -> Choice:
    from fireiron.tune.candidates import Candidate, judge
    from fireiron.tune.problem import problem

    where = _machine()
    target = _target(spec, arch)
    wanted = problem(spec.program)
    named = {preset.name: preset for preset in presets()}
    for found in _index().find(wanted, where.device, target):
        preset = named.get(found.record.preset)
        if preset is None:
            continue
        candidate = Candidate(preset, found.record.point)
        if judge(candidate, spec, target).failure is None:  # what was legal there need not be here
            return Choice(preset.build(spec, found.record.point), candidate, found.why, found.record)
    return _modelled(spec, target)


def _modelled(spec: MatMulChain, target: str) -> Choice:
    """Descend by the model, one keyword at a time, from the best of the presets' defaults."""
    from fireiron.tune.candidates import Candidate, Judged, judge
    from fireiron.tune.space import default_point, point, space_of

    end = time.perf_counter() + MODEL_BUDGET_S
    judged: dict[Candidate, Judged] = {}

    def look(preset: Preset, values: Mapping[str, Any]) -> None:
        candidate = Candidate(preset, point(values))
        if candidate not in judged and (time.perf_counter() < end or not leader()):
            judged[candidate] = judge(candidate, spec, target)

    def leader() -> Judged | None:
        legal = [j for j in judged.values() if j.modelled_us is not None]
        return min(legal, key=lambda j: j.modelled_us or 0.0, default=None)

    spaces = {p: s for p in presets() if (s := space_of(p.function)) is not None}
    for preset, space in spaces.items():
        look(preset, default_point(preset.function, space).keywords)
    for preset, space in spaces.items() if leader() is None else ():
        for other in space.points(FEW_POINTS):
            look(preset, other.keywords)
    before, best = None, leader()
    while best is not None and best != before:
        before = best
        for name, values in spaces[best.candidate.preset].axes:
            for value in values:
                look(best.candidate.preset, {**best.candidate.point.keywords, name: value})
            best = leader() or best
    if best is None:
        refused = {j.candidate.preset.name: j.failure for j in judged.values()}
        listed = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise CheckError(
            "nothing-legal", f"no preset takes {spec.residual} on {target}: {listed}", fix="write a schedule for it"
        )
    why = f"no record: the first of {len(judged)} by the cost model, not measured"
    schedule = best.candidate.preset.build(spec, best.candidate.point)
    return Choice(schedule, best.candidate, why, modelled_us=best.modelled_us)


@cache
def presets() -> tuple[Preset, ...]:
    """List the presets that have a search space."""
    from fireiron.front.cli.find import presets as targets
    from fireiron.tune.candidates import preset
    from fireiron.tune.space import space_of

    return tuple(preset(t.made, name=t.reference) for t in targets() if space_of(t.made) is not None)


@cache
def _machine() -> Machine:
    from fireiron.tune.machine import machine

    return machine()


def _target(spec: MatMulChain, arch: str | None) -> str:
    from fireiron.algebra.arch import arch as find_arch

    wanted = arch or spec.program.arch
    return _machine().arch if wanted is None else find_arch(wanted).name


@cache
def _index() -> Index:
    from fireiron.tune.lookup import load

    index, problems = load()
    for said in problems:
        warnings.warn(f"fireiron: {said}", stacklevel=2)
    return index


def gemm(a: Any, b: Any, *, out: Any = None, layout: str = "NN", stream: Any = None) -> Any:
    """Multiply two arrays with the best schedule known for their shapes.

    Args:
        a, b: arrays as the layout stores them, of torch, CuPy or NumPy; batches of them have one more dimension.
        out: array to write; allocated where None.
        layout: as `matmul` takes it: the second letter is A's, T meaning A[K, M]; the first is B's, T meaning B[N, K].
        stream: as a kernel takes it.

    Raises:
        CallError: as a kernel's call does. CheckError: `nothing-legal`.

    Example:
        >>> import numpy as np
        >>> gemm(np.ones((32, 16), np.float32), np.ones((16, 64), np.float32))[0, 0].item()
        16.0
    """
    kernel = _kernels.get((layout, a.dtype, a.shape, b.shape, None if out is None else out.dtype))
    if kernel is None:
        kernel = _prepared(a, b, out, layout)
    return kernel(a, b, out=out, stream=stream)


_kernels: dict[Any, Callable[..., Any]] = {}


def _prepared(a: Any, b: Any, out: Any, layout: str) -> Callable[..., Any]:
    from fireiron.base.errors import CallError
    from fireiron.jit.arrays import describe

    facts = describe(a, "a"), describe(b, "b")
    ranks = {len(x.shape) for x in facts}
    if ranks not in ({2}, {3}):
        raise CallError(
            "wrong-shape",
            f"a has the shape {facts[0].shape} and b {facts[1].shape}",
            fix="give two matrices, or two batches of them",
        ).located(here())
    m, k = facts[0].shape[-2:] if layout[1:] != "T" else facts[0].shape[:-3:-1]
    n = facts[1].shape[-1] if layout[:1] != "T" else facts[1].shape[-2]
    batch = facts[0].shape[0] if ranks == {3} else None
    wanted = None if out is None else describe(out, "out").dtype
    kernel = _kernel(m, n, k, facts[0].dtype, wanted, layout, batch)
    if len(_kernels) >= MOST_CHOICES:
        _kernels.clear()
    _kernels[layout, a.dtype, a.shape, b.shape, None if out is None else out.dtype] = kernel
    return kernel


@cache
def _kernel(m: int, n: int, k: int, dtype: str, out: str | None, layout: str, batch: int | None) -> CompiledKernel:
    from fireiron.front.spec import matmul

    return best(matmul(m, n, k, dtype, out=out, layout=layout, batch=batch)).compile()
