"""Subjects: the schedules and peers that are timed, each a function from a case to launches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import attrs

from fireiron.algebra.dtypes import tf32
from fireiron.base.errors import CompileError, FireironError, UsageError

from .arrays import Arrays, torch_module
from .cases import Case

Launch = Callable[[], object]
Rough = Callable[[Sequence[Launch]], list[float]]
"""Measure a rough time of each launch, for a peer that chooses among several."""

PEERS = ("cublas", "cublaslt", "torch", "torch.compile", "triton")


@attrs.frozen(eq=False)
class Prepared:
    """Hold a subject that is prepared for one case.

    Args:
        launch: function from a set of arrays to the launch.
        detail: the schedule or the library's function, for the results.
        modelled_us: the cost model's time, or None.
        registers: registers of a thread, None where not known.
    """

    launch: Callable[[Arrays], Launch]
    detail: str = ""
    modelled_us: float | None = None
    registers: int | None = None


class Subject(Protocol):
    """An object that computes products."""

    @property
    def name(self) -> str:
        """Return the name in tables and results."""
        ...

    @property
    def ours(self) -> bool:
        """Say whether a wrong result is a defect of this project."""
        ...

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Prepare the subject for a case.

        Args:
            case: the problem.
            arrays: one set of operands; None where there is no GPU.
            rough: times launches roughly; None where there is no GPU.

        Raises:
            FireironError: where the subject cannot compute this case.
        """
        ...


@attrs.frozen
class Scheduled:
    """Time a schedule of this library.

    Args:
        reference: a preset, `path/file.py:function`, or `best` for the choice of `fireiron.best`, run as by
            `fireiron.gemm`: in several launches where lines are copied before the product.
        values: keywords of the preset.
        arch: the target, the GPU's where None.
        given: the function itself, where it has no reference.
    """

    reference: str
    values: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    arch: str | None = None
    given: Callable[..., Any] | None = None
    ours: bool = True

    @property
    def name(self) -> str:
        """Name the preset with its keywords."""
        return " ".join((self.reference, *(f"{name}={value}" for name, value in self.values.items())))

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Build, compile and estimate the schedule."""
        several = import_module("fireiron.front.several").compiled_for if self.reference == "best" else None
        kernel = several(case.spec(), self.arch) if several is not None else None
        if kernel is not None:
            detail, modelled, registers = f"copies, {kernel.product.name}", None, kernel.product.resources.registers
        else:
            schedule, detail = self._schedule(case)
            kernel = schedule.compile(self.arch)
            modelled, registers = schedule.estimate(self.arch).time_us, kernel.resources.registers

        def launch(found: Arrays) -> Launch:
            operands = (found.stored_a, found.stored_b, *found.added(case))
            return lambda: kernel(*operands, out=found.out)

        return Prepared(launch, detail, modelled, registers)

    def _schedule(self, case: Case) -> tuple[Any, str]:
        if self.reference == "best":
            found = import_module("fireiron.front.best").choose(case.spec(), self.arch)
            return found.schedule, str(found.point)
        made = self.given
        if made is None:
            from fireiron.front.cli.find import find

            made = find(self.reference).made
        return made(case.spec(), **self.values), self.name


@attrs.frozen
class Torch:
    """Time torch.mm, torch.bmm, for int8 torch._int_mm, for 8-bit floats torch._scaled_mm with scales of 1.

    Bias and relu are fused where torch has a function for them: torch.addmm, torch._addmm_activation. Other ops run as
    separate kernels, in place.
    """

    name: str = "torch"
    ours: bool = False

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Choose the function."""
        torch = needs_gpu(self.name, arrays)
        inside, _, outside = case.types
        if inside.packed or (inside.kind == "int" and inside.name != "i8"):
            raise unsupported(self.name, case)
        if inside.bits == 8:
            if case.batch is not None or case.steps or (inside.kind == "float" and case.layout != "TN"):
                raise unsupported(self.name, case)
            if inside.kind == "int":
                return Prepared(lambda found: lambda: torch._int_mm(found.a, found.b, out=found.out), "torch._int_mm")
            one = torch.ones((), device="cuda")
            fixed = {"scale_a": one, "scale_b": one, "out_dtype": getattr(torch, outside.numpy_name)}
            return Prepared(
                lambda found: lambda: torch._scaled_mm(found.a, found.b, **fixed, use_fast_accum=True, out=found.out),
                "torch._scaled_mm, fast accumulation",
            )
        if inside.numpy_name != outside.numpy_name:
            raise unsupported(self.name, case)
        torch.backends.cuda.matmul.allow_tf32 = inside == tf32
        if case.steps:
            return self._fused(torch, case)
        function = torch.mm if case.batch is None else torch.bmm
        return Prepared(lambda found: lambda: function(found.a, found.b, out=found.out), f"torch.{function.__name__}")

    def _fused(self, torch: Any, case: Case) -> Prepared:
        if case.batch is not None:
            raise unsupported(self.name, case)
        match case.steps:
            case ("bias",):
                return Prepared(
                    lambda found: lambda: torch.addmm(found.bias, found.a, found.b, out=found.out), "torch.addmm"
                )
            case ("bias", "relu"):
                return Prepared(
                    lambda found: lambda: torch._addmm_activation(found.bias, found.a, found.b, out=found.out),
                    "torch._addmm_activation",
                )
            case ("relu",):
                return Prepared(
                    lambda found: lambda: torch.mm(found.a, found.b, out=found.out).relu_(), "torch.mm, then relu_"
                )
            case _:
                return self._apart(torch, case)

    def _apart(self, torch: Any, case: Case) -> Prepared:
        """Run each op after the product, or after the product with its bias, as a separate kernel."""
        begins = case.steps[0] == "bias"
        rest = case.steps[1:] if begins else case.steps
        function = torch.nn.functional
        each: dict[str, Callable[[Any, Arrays], Any]] = {
            "bias": lambda x, found: x.add_(found.bias),
            "residual": lambda x, found: x.add_(found.residual),
            "relu": lambda x, found: x.relu_(),
            "silu": lambda x, found: function.silu(x, inplace=True),
            "gelu": lambda x, found: torch.ops.aten.gelu.out(x, out=x),
        }

        def launch(found: Arrays) -> Launch:
            def run() -> None:
                if begins:
                    torch.addmm(found.bias, found.a, found.b, out=found.out)
                else:
                    torch.mm(found.a, found.b, out=found.out)
                for step in rest:
                    each[step](found.out, found)

            return run

        return Prepared(launch, ", then ".join(("torch.addmm" if begins else "torch.mm", *rest)))


@attrs.frozen
class Compiled:
    """Time the product and the ops after it by torch.compile, with its own autotuner."""

    name: str = "torch.compile"
    ours: bool = False

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Compile the function."""
        torch = needs_gpu(self.name, arrays)
        inside, _, outside = case.types
        if case.batch is not None or inside != outside or inside.kind != "float" or inside.bits == 8:
            raise unsupported(self.name, case)
        torch.backends.cuda.matmul.allow_tf32 = False
        each: dict[str, Callable[[Any, Any, Any], Any]] = {
            "bias": lambda x, row, residual: x + row,
            "residual": lambda x, row, residual: x + residual,
            "relu": lambda x, row, residual: torch.relu(x),
            "gelu": lambda x, row, residual: torch.nn.functional.gelu(x),
            "silu": lambda x, row, residual: torch.nn.functional.silu(x),
        }
        applied = [each[step] for step in case.steps]

        def product(a: Any, b: Any, row: Any, residual: Any) -> Any:
            result = torch.mm(a, b)
            for op in applied:
                result = op(result, row, residual)
            return result

        function = torch.compile(product, dynamic=False, mode="max-autotune-no-cudagraphs")

        def launch(found: Arrays) -> Launch:
            checked = False

            def run() -> None:
                nonlocal checked
                result = function(found.a, found.b, found.bias, found.residual)
                if (
                    not checked
                ):  # the compiled function allocates its result, so the first result is copied and compared
                    found.out.copy_(result)
                    checked = True

            return run

        return Prepared(launch, f"torch.compile {torch.__version__}, max-autotune-no-cudagraphs")


@attrs.frozen(eq=False)
class Function:
    """Time any callable: function(a, b, out) writes a @ b to `out`.

    Args:
        name: name in tables.
        function: takes a as M x K and b as K x N, which may be transposed views, and `out`.
    """

    name: str
    function: Callable[[Any, Any, Any], object]
    ours: bool = False

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Bind the arrays."""
        needs_gpu(self.name, arrays)
        if case.steps:
            raise unsupported(self.name, case)
        return Prepared(lambda found: lambda: self.function(found.a, found.b, found.out))


def subject(word: str, arch: str | None = None) -> Subject:
    """Find a subject: a peer by its name, `best`, a preset, or a function in a file.

    A function whose first parameter is called `spec` is a preset of ours; any other is called with (a, b, out).

    Raises:
        UsageError: `unknown-peer`, and as `fireiron.front.cli.find` does.
    """
    if word == "torch":
        return Torch()
    if word == "torch.compile":
        return Compiled()
    if word in ("cublas", "cublaslt"):
        from .cublas import Cublas, CublasLt

        return Cublas() if word == "cublas" else CublasLt()
    if word == "triton":
        from .triton_gemm import Triton

        return Triton()
    if word == "best":
        return Scheduled("best", arch=arch)
    from fireiron.front.cli.find import find, is_reference

    if not is_reference(word):
        raise UsageError("unknown-peer", f"there is no peer {word}", fix=f"use {', '.join(PEERS)}, or file.py:function")
    target = find(word)
    if ".py" not in word or _takes_spec(target.made):
        return Scheduled(word, arch=arch)
    return Function(word, target.made)


def as_subject(given: object, arch: str | None = None) -> Subject:
    """Convert an argument of `measure` to a subject: a word, a preset function, or a subject.

    Raises:
        UsageError: as `subject` does.
    """
    if isinstance(given, str):
        return subject(given, arch)
    if hasattr(given, "prepare"):
        return given  # pyright: ignore[reportReturnType]
    if callable(given):
        named = f"{getattr(given, '__module__', '')}.{getattr(given, '__name__', given)}"
        named = named.removeprefix("fireiron.schedules.").removeprefix("__main__.")  # of a notebook
        if _takes_spec(given):
            return Scheduled(named, arch=arch, given=given)
        return Function(named, given)
    raise UsageError("unknown-peer", f"{given!r} cannot be timed", fix="give a name, a preset, or function(a, b, out)")


def _takes_spec(function: Any) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    return bool(parameters) and (parameters[0].name == "spec" or "MatMulChain" in str(parameters[0].annotation))


def needs_gpu(name: str, arrays: Arrays | None) -> Any:
    """Return torch, for a peer that needs a GPU.

    Raises:
        UsageError: `nothing-to-show` without a GPU.
    """
    if arrays is None:
        raise UsageError(
            "nothing-to-show", f"{name} can only be timed, and there is no GPU", fix="run on a machine with a GPU"
        )
    return torch_module()


def unsupported(name: str, case: Case) -> FireironError:
    """Say that a peer does not compute a case."""
    return UsageError("unsupported-case", f"{name} does not compute {case}", fix="leave the peer out for this case")


def not_installed(name: str, what: object) -> FireironError:
    """Say that a peer's library is missing."""
    return CompileError(
        "not-installed", f"{name} cannot be timed: {what}", fix="pip install 'fireiron[bench]', or leave it out of --vs"
    )
