"""Start a schedule of a program with several dims as one."""

from __future__ import annotations

from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.front.chain import FoldChain, ProgramChain
from fireiron.language.fuse import fused
from fireiron.language.residual import start
from fireiron.language.specs import task_of
from fireiron.language.steps import Program


def fuse(spec: ProgramChain, **dims: str) -> ProgramChain:
    """Treat dims of a program that follow each other as one dim: a tile of it is a run of points across their ends.

    The arrays of a call keep their shapes. What the program reads by windows is then no box: copies in im2col mode load
    it on Hopper, and copies by threads elsewhere.

    Args:
        spec: a program, before the first link.
        dims: the fused dim's name, and the names of the dims parted by spaces: `m="n p q"`.

    Raises:
        SpecError: `fuse-dims` where they are no dims that all results keep next to each other, or where links stand
            ahead.

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
