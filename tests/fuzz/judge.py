"""Say what becomes of a chain: refused with a code, computed right bit by bit, or a finding.

Data are small integers, and powers of two for what 8-bit floats cannot hold: sums of them are exact in every type, so
that a result is compared bit by bit. Where an op rounds (gelu, a quotient), its proven bound is the measure. What is
exponentiated below a maximum runs once more with other numbers, whose exponentials are no whole ones.
"""

from __future__ import annotations

import contextlib
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np

import fireiron
from fireiron.algebra.dtypes import DType, dtype
from fireiron.algebra.elements import read, strided
from fireiron.base.errors import CheckError, CompileError, FireironError, SimulationError
from fireiron.jit import bind
from fireiron.jit.arrays import random_ends
from fireiron.jit.expression import evaluate
from fireiron.jit.interface import Interface
from fireiron.language.as_steps import steps_of
from fireiron.schedules import (
    ada,
    akg,
    ampere,
    attention,
    attention_gradients,
    conv,
    conv_gradients,
    fused,
    hopper,
    pointwise,
    reductions,
    rows,
    simt,
    turing,
    volta,
)
from fireiron.simulate import cost, simulate
from fireiron.verify.bounded import Bounded
from fireiron.verify.level_data import level_arrays
from fireiron.verify.reference import mathematical, references
from tests.fuzz.climbs import climbing

PRESETS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        ada, akg, ampere, attention, attention_gradients, conv, conv_gradients, fused, hopper, pointwise, reductions,
        rows, simt, turing, volta,
    )
}  # fmt: skip
ROOT = str(Path(fireiron.__file__).resolve().parent.parent)
# What the simulator says it cannot run: a microkernel that only CUDA tells about.
UNSEEN = ("microkernel-numpy",)
Kind = Literal["refused", "right", "bounded", "large", "slow", "finding"]
CHAIN = "<chain>"  # the file of a chain's text
ARGUMENTS = re.compile(r"\(\) (takes|missing|got) ")
LIMIT_S = 60  # of the processor, for one chain
LARGE = 256.0  # by what a few numbers are larger than others


@attrs.frozen
class Verdict:
    """Hold what became of a chain.

    Args:
        kind: `right` bit by bit, `bounded` where ops round, `refused` with a code, `large` where the predicted time of
            the simulation is beyond the limit, `slow` where the time was.
        code: the error's, or what is wrong.
        text: one line that says it.
        compiled: `no`, `yes`, `findings` (spills and their like), `refused`.
    """

    kind: Kind
    code: str = ""
    text: str = ""
    compiled: str = "no"

    def __str__(self) -> str:
        return f"{self.kind}{f' {self.code}' if self.code else ''}{f': {self.text}' if self.text else ''}"


class Slow(BaseException):
    """Ends a chain that takes too long; nothing in the library catches it."""


def names() -> dict[str, Any]:
    """Give the names that a chain's text may use."""
    return {**{name: getattr(fireiron, name) for name in fireiron.__all__}, **PRESETS, "fi": fireiron}


def built(source: str) -> Any:
    """Evaluate a chain's text."""
    return eval(compile(source, CHAIN, "eval"), names())


def judge(chain: str | Callable[[], Any], compiled: bool = False, verbs: bool = False) -> Verdict:
    """Build, simulate and compare a chain.

    Args:
        chain: its text, or a function that makes it.
        compiled: whether NVRTC compiles it too.
        verbs: whether what prints and estimates it is called too.
    """
    make = (lambda: built(chain)) if isinstance(chain, str) else chain
    try:
        with limited(LIMIT_S):
            return _judged(make, compiled, verbs)
    except Slow:
        return Verdict("slow", "", f"more than {LIMIT_S} s")


def _judged(make: Callable[[], Any], compiled: bool, verbs: bool) -> Verdict:
    try:
        schedule = make()
        kernel = schedule.lowered()
    except FireironError as error:
        return Verdict("refused", error.code, error.message) if error.code else _raised("error without a code", error)
    except Exception as error:
        return _raised("raised", error, made=False)
    predicted = cost(kernel, sizes_of(Interface.of(kernel)))
    if predicted > LIMIT_S:
        return Verdict("large", "", f"about {predicted:.0f} s")
    try:
        exact, wrong = compared(schedule, kernel)
    except SimulationError as error:
        if error.code in UNSEEN:
            return Verdict("refused", error.code, error.message)
        return Verdict("finding", f"simulate: {error.code}", error.message)
    except FireironError as error:
        return Verdict("refused", error.code, error.message)
    except Exception as error:
        return _raised("simulate raised", error)
    if wrong:
        return Verdict("finding", *wrong)
    found = (_printed(schedule) if verbs else None) or Verdict("right" if exact else "bounded")
    return _compiled(schedule, found) if compiled and found.kind != "finding" else found


def _raised(what: str, error: Exception, made: bool = True) -> Verdict:
    """Name the place in the library that let an exception through.

    Args:
        what: the words for it.
        error: the exception.
        made: whether the chain stood already: an exception from outside the library is then this file's own.
    """
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename.startswith(ROOT) and "/tests/" not in f.filename]
    binding = bool(inside) and Path(inside[-1].filename).stem == "contract" and ARGUMENTS.search(str(error))
    if made and not inside:
        raise error
    if not made and (not inside or binding or frames[-1].filename == CHAIN):
        # Python's own refusal of a call, or what a function in the chain's text raises.
        return Verdict("refused", type(error).__name__, str(error))
    place = f"{Path(inside[-1].filename).stem}.{inside[-1].name}"
    return Verdict("finding", f"{what} {type(error).__name__} in {place}", str(error)[:200])


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End what takes longer, in seconds of this process."""

    def end(*_: object) -> None:
        raise Slow

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def sizes_of(interface: Interface) -> dict[str, int]:
    """Read the symbols' values from their names."""
    return {p.name: int(re.search(r"\d+$", p.name)[0]) for p in interface.symbols}  # type: ignore[index]


def integers(schedule: Any, interface: Interface, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Draw arrays whose sums of products are exact; outputs hold what shows that nobody wrote them.

    What lies below a maximum and is exponentiated lies there or far below, so that exponentials are 1 or 0.

    Args:
        schedule: what runs.
        interface: its kernel's.
        sizes: values of its symbols.
        seed: of the numbers.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for pointer in interface.pointers:
        kind = dtype(pointer.dtype)
        shape, strides = bind.concrete(pointer.shape, sizes), bind.concrete(pointer.strides, sizes)
        flat = np.empty(1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)), kind.numpy)
        if pointer.shares:
            flat[...] = random_ends(rng, len(flat), evaluate(pointer.shares, sizes))
        elif pointer.below:
            flat[...] = rng.integers(0, min(evaluate(pointer.below, sizes), int(kind.limits[1]) + 1), flat.shape)
        elif kind.packed:
            flat[...] = rng.integers(0, 256, flat.shape)
        elif pointer.role == "output":
            flat[...] = np.asarray(np.nan if kind.kind == "float" else 85).astype(kind.numpy)
        elif kind.kind == "float" or kind.bits > 8:
            flat[...] = rng.choice(np.array([-2, -1, -1, 1, 1, 2, 0]), flat.shape).astype(kind.numpy)
        else:
            flat[...] = rng.integers(-5 if kind.signed else 0, 6, flat.shape).astype(kind.numpy)
        arrays[pointer.name] = strided(flat, shape, strides)
    inputs, levels = _levels(schedule, arrays, rng)
    for name, values in levels.items():
        mathematical(inputs[name], arrays[name])[...] = values.astype(arrays[name].dtype)
    return arrays


def others(schedule: Any, arrays: Mapping[str, Any], count: int = 3, alone: int = 0) -> Iterator[dict[str, Any]]:
    """Draw other numbers where `integers` has levels, so that exponentials are neither 1 nor 0.

    A factor that rescales sums is then seen where it is applied twice, or not at all. In every second draw
    maxima grow along the keys, as `climbs` says. In the others but the first, a few numbers are much larger
    than others: a maximum that misses one of them lets its exponential overflow. Results are compared within their
    bounds.

    Args:
        schedule: what runs.
        arrays: what `integers` drew.
        count: of draws; there are none where no input has levels.
        alone: of more draws, in which maxima grow by single keys too.
    """
    for seed in range(count + alone):
        rng = np.random.default_rng(seed)
        found = {name: array.copy() for name, array in arrays.items()}
        inputs, levels = _levels(schedule, found, rng)
        program = steps_of(schedule.program.spec, schedule.links)
        shapes = {name: mathematical(t, found[name]).shape for name, t in inputs.items()}
        single = seed >= count
        climbs = climbing(program, shapes, rng, single) if seed % 2 or single else {}
        for name in levels:
            array = mathematical(inputs[name], found[name])
            numbers = rng.integers(-16, 17, array.shape) / 8
            if name in climbs:
                numbers = climbs[name]
            elif seed % 2 == 0 and seed:
                numbers *= np.minimum(1 / (1 - rng.random(array.shape)), LARGE)
            array[...] = np.clip(numbers, *inputs[name].dtype.limits).astype(array.dtype)
        if levels:
            yield found


def _levels(schedule: Any, arrays: Mapping[str, Any], rng: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give a schedule's inputs by name, and the levels of those that exponentials follow from."""
    program = steps_of(schedule.program.spec, schedule.links)
    inputs = {t.name: t for t in program.inputs if t.name in arrays}
    shapes = {name: mathematical(t, arrays[name]).shape for name, t in inputs.items()}
    return inputs, level_arrays(program, shapes, rng)


def stored(value: Any, kind: DType) -> Any:
    """Round f64 numbers to a type once, as a store does: integers and 8-bit floats saturate."""
    if kind.kind == "int":
        return np.clip(np.nan_to_num(np.rint(value)), *kind.limits).astype(kind.numpy)
    return (np.clip(value, *kind.limits) if kind.bits == 8 else value).astype(kind.numpy)


def compared(schedule: Any, kernel: Any, seed: int = 0) -> tuple[bool, tuple[str, str] | None]:
    """Simulate a schedule's kernel on integers, and compare with NumPy in f64.

    Returns:
        Whether every element is the reference's bit by bit, and what is wrong, None for nothing.
    """
    interface = Interface.of(kernel)
    sizes = sizes_of(interface)
    arrays = integers(schedule, interface, sizes, seed)
    numbers = {p.name: 2.0 for p in interface.numbers}
    exact, wrong = True, None
    for inputs in (arrays, *others(schedule, arrays)):
        if wrong is None:
            before = {name: array.copy() for name, array in inputs.items()}
            simulate(kernel, inputs, sizes, numbers)
            same, wrong = results(schedule, inputs, before, numbers)
            exact = exact and (same or inputs is not arrays)
    return exact, wrong


def results(
    schedule: Any, arrays: Mapping[str, Any], before: Mapping[str, Any], numbers: Mapping[str, float]
) -> tuple[bool, tuple[str, str] | None]:
    """Compare what a run wrote with what the same inputs give in f64.

    Args:
        schedule: what ran.
        arrays: by name, behind the run.
        before: the same ahead of it.
        numbers: scalars by name.
    """
    return against(schedule, arrays, references(schedule, {**arrays, **before}, numbers))


def against(
    schedule: Any, arrays: Mapping[str, Any], expected: Mapping[str, Bounded]
) -> tuple[bool, tuple[str, str] | None]:
    """Compare what a run wrote with what was expected of it.

    Args:
        schedule: what ran.
        arrays: by name, behind the run.
        expected: values and bounds of outputs by name, in mathematical order.
    """
    outputs = {tensor.name: tensor for tensor in schedule.program.spec.outputs}
    for link in schedule.links:
        outputs |= {output.tensor.name: output.tensor for output in getattr(link, "outputs", ())}
    exact = True
    for name, bounded in expected.items():
        tensor = outputs[name]
        got = read(mathematical(tensor, arrays[name]), tensor.dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            wanted = np.broadcast_to(stored(bounded.value, tensor.dtype).astype(np.float64), got.shape)
            same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
            near = same | (np.abs(got - bounded.value) <= bounded.error)
        if not near.all():
            at = tuple(int(i) for i in np.argwhere(~near)[0])
            many = int((~near).sum())
            where = ", ".join(map(str, at))
            return False, (
                "wrong",
                f"{many} of {near.size} elements: {name}[{where}] is {got[at]:g}, not {wanted[at]:g}",
            )
        exact = exact and bool(same.all())
    return exact, None


def _printed(schedule: Any) -> Verdict | None:
    """Call what prints, checks and estimates a schedule; each may refuse with a code."""
    for verb in ("check", "facts", "explain", "tree", "estimate"):
        try:
            str(getattr(schedule, verb)())
        except FireironError:
            pass
        except Exception as error:
            return _raised(f"{verb} raised", error)
    return None


def _compiled(schedule: Any, found: Verdict) -> Verdict:
    """Compile a right schedule for its architecture."""
    try:
        kernel = schedule.compile(allow_spills=True, cache=False)
    except CompileError as error:
        if error.code == "nvrtc":
            return Verdict("finding", "nvrtc", error.message)
        return attrs.evolve(found, compiled="refused")
    except CheckError:
        return attrs.evolve(found, compiled="refused")
    except Exception as error:
        return _raised("compile raised", error)
    return attrs.evolve(found, compiled="findings" if kernel.findings else "yes")
