"""Start a schedule of a program in which several dims count as one."""

from __future__ import annotations

from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.front.chain import FoldChain, ProgramChain
from fireiron.language.fuse import fused
from fireiron.language.residual import start
from fireiron.language.specs import task_of
from fireiron.language.steps import Program


def fuse(spec: ProgramChain, **dims: str) -> ProgramChain:
    """Treat neighbouring dims of a program as one dim, whose tiles may run across the ends of the single dims.

    The arrays of a call keep their shapes. A tile's part of an array that is read by windows is then no box: on Hopper
    bulk copies in im2col mode load this part, on other architectures threads load it.

    Args:
        spec: a program, before the first link.
        dims: the new dim's name, and the names of the dims that it replaces: `m="n p q"`.

    Raises:
        SpecError: `fuse-dims` where a result does not have these dims next to each other, or the chain has links
            already.

    Example:
        >>> from fireiron import tensor
        >>> from fireiron.schedules.conv import conv2d
        >>> images, filters = tensor(2, 8, 8, 16, dtype="f16"), tensor(32, 3, 3, 16, dtype="f16", name="f")
        >>> print(fuse(conv2d(images, filters, pad=1), m="n p q").computed)
        conv2d(x[2, 8, 8, 16].f16.GL, f[32, 3, 3, 16].f16.GL) over m 128, k 32, r 3, s 3, c 16
          product[m, k] = add over r, s, c of x[m // 64, m // 8 % 8 + r - 1, m % 8 + s - 1, c] * f[k, r, s, c]
          y[m, k]       = f16(product[m, k])
    """
    try:
        if spec.links:
            raise SpecError(
                "fuse-dims", f"fuse() stands behind {len(spec.links)} links", fix="fuse dims of the program first"
            )
        program = spec.program.spec
        if not isinstance(program, Program):
            raise SpecError("fuse-dims", "fuse() takes a program", fix="give what a function under @program gives")
        for name, parts in dims.items():
            program = fused(program, parts.split(), name)
        return FoldChain(task_of(program, spec.program.arch), (), start(program))
    except FireironError as error:
        raise error.located(here()) from None
