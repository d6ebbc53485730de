"""Print a kernel as one CUDA C++ source without includes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fireiron.algebra.expr import Var
from fireiron.base.errors import CheckError
from fireiron.base.text import Writer
from fireiron.cuda.helpers import HELPERS, called
from fireiron.cuda.memory import buffers, dtypes, parameter
from fireiron.cuda.statements import Body
from fireiron.cuda.types import C_TYPES, DECLARED, c_type
from fireiron.kernel.ir.rewrite import mentions
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, RANK, THREAD, Kernel, Number, Pointer, Roles, Size, TensorMap

INDENT: Final = "    "
_SPECIAL: Final = {THREAD: "threadIdx.x", BLOCK: "blockIdx.x", BLOCKS: "gridDim.x", RANK: "cluster_rank()"}
_TENSOR_MAP: Final = "struct alignas(64) TensorMap { unsigned long long words[16]; };"


def source(kernel: Kernel, bounded: bool = False) -> str:
    """Print a kernel: element types, the small functions that it calls, then the kernel itself.

    Args:
        kernel: what to print.
        bounded: whether waits on mbarriers fail after some seconds, by an assertion that names the barrier and the
            link.

    Raises:
        CheckError: `name-taken` for a parameter with the name of a function that the kernel calls; `register-size`,
            `float-operation`, `masked-atom`, `no-barrier` and `microkernel-stride` for kernels that lowering does not
            make.
    """
    writer = Writer(INDENT)
    with writer.indent():
        body = Body(kernel.threads, writer, bounded=bounded)
        if not any(isinstance(statement, Roles) for statement in kernel.body):  # roles declare their own
            body.searches(kernel.body)
        body.statements(kernel.body)
    statements = writer.text()
    functions = _each_once(body.functions)
    _check_names(kernel, statements)
    specials = [_SPECIAL[name] for name in _used(kernel, statements)]
    helpers = [HELPERS[name] for name in called([statements, *functions, *specials])]
    used = "\n".join([statements, *helpers, *functions])
    named = {c_type(dtype) for dtype in dtypes(kernel)}
    types = [text for name, text in DECLARED.items() if C_TYPES[name] in named or _mentions(used, C_TYPES[name])]
    if any(isinstance(p, TensorMap) for p in kernel.parameters):
        types.append(_TENSOR_MAP)
    head = ["\n".join(types) + "\n"] if types else []
    return "\n".join([*head, *helpers, *functions, _entry(kernel, statements)])


def _check_names(kernel: Kernel, statements: str) -> None:
    """Refuse parameters whose names hide functions that the kernel calls.

    Raises:
        CheckError: `name-taken`.
    """
    for given in kernel.parameters:
        match given:
            case Pointer(buffer=buffer):
                name = buffer.name
            case Size(symbol=symbol):
                name = symbol.name
            case Number(name=name):
                pass
            case _:
                continue
        if f"{name}(" in statements and re.search(rf"(?<!\w){name}\(", statements):
            raise CheckError(
                "name-taken",
                f"{name} is the name of a function that {kernel.name} calls",
                fix=f"rename {name}, for example {name}_",
            )


def _each_once(texts: Iterable[str]) -> list[str]:
    """Cut the texts of atoms into functions, and list each function once, where several atoms share it."""
    return list(dict.fromkeys(part for text in texts for part in re.split(r"(?<=\n}\n)(?=\S)", text)))


def _entry(kernel: Kernel, body: str) -> str:
    """Print the kernel's head, its declarations and its body."""
    blocks = max(kernel.minimum_blocks, kernel.wanted_blocks)
    bounds = f"{kernel.threads}, {blocks}" if blocks else f"{kernel.threads}"
    if kernel.cluster > 1:
        bounds += f") __cluster_dims__({kernel.cluster}, 1, 1"
    parameters = ",\n".join(INDENT + parameter(p, not kernel.dependent) for p in kernel.parameters)
    used = _used(kernel, body)
    lines = [f"const int {name} = {_SPECIAL[name]};" for name in used]
    # Not being negative, they are divided by shifting and masking; the compiler does not see it from the conversion.
    lines += [f"__builtin_assume({name} >= 0);" for name in used]
    lines += buffers(kernel)
    declarations = "".join(f"{INDENT}{line}\n" for line in lines)
    # A region heads itself with an empty line, which the start of the function needs only after declarations.
    body = body if declarations else body.removeprefix("\n")
    return (
        f'extern "C" __global__ void __launch_bounds__({bounds})\n'
        f"{kernel.name}(\n{parameters}) {{\n{declarations}{body}}}\n"
    )


def _used(kernel: Kernel, body: str) -> list[str]:
    """List the special variables that a body names, such as `thread`, unless each role declares its own `thread`."""
    common = tuple(s for s in kernel.body if not isinstance(s, Roles))
    own = common != kernel.body and not mentions(common, Var(THREAD, kernel.threads))
    return [name for name in _SPECIAL if _mentions(body, name) and not (own and name == THREAD)]


def _mentions(text: str, name: str) -> bool:
    return name in text and re.search(rf"\b{name}\b", text) is not None  # the first is quick, and mostly no
