"""Names of kernels: preset, tile and dtypes, as profilers show them."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.layout import Layout
from fireiron.language.decompositions import Chunks, Decomposition, Epilog, Extent, Split, StreamK, Tile, Widest
from fireiron.language.levels import Block
from fireiron.language.programs import Layers, Products
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Task
from fireiron.language.steps import Program


def kernel_name(program: Task, links: Sequence[Decomposition]) -> str:
    """Name a schedule's kernel. Example: `gemm_128x128x64_f16_f32`.

    The name has the preset (the function that wrote the first link), the block's tile with the chunk of K, and the
    element types.
    """
    spec = program.spec
    link = links[0].link if links else None
    preset = link.function.lstrip("_") if link is not None else ""
    tile = next(
        (_sizes(x) for x in links if isinstance(x, Tile) and x.level is not None and x.level.name == Block.name), ""
    )
    splits = [x for x in links if isinstance(x, Split)]
    chunk = next((f"x{x.size}" for x in splits if x.level is None), "")
    # How units share K, as in k4: by a number of chunks, or as in per32: by their extent.
    chunk += "".join(f"_k{x.ways}" if x.ways else f"_per{x.size}" for x in splits if x.level is not None)
    chunk += "_stream" if any(isinstance(x, Tile) and isinstance(x.share, StreamK) for x in links) else ""
    match spec:
        case MatMul(A=a, C=c):
            acc = next((x.dtype for x in links if isinstance(x, Epilog)), None)
            types = list(dict.fromkeys(str(t) for t in (a.dtype, acc, c.dtype) if t is not None))
            types += [spec.product] if spec.product != "mul" else []
        case Products(outs=outs):
            kinds = (spec.lefts[0].dtype, spec.accumulator, outs[0].dtype)
            types = list(dict.fromkeys(str(t) for t in kinds))
        case Layers(X=a, layers=layers, Y=out):
            tile += f"x{max(layer.width for layer in layers)}_{sum(layer.count for layer in layers)}layers"
            types = list(dict.fromkeys(str(t) for t in (a.dtype, spec.accumulator, out.dtype)))
        case Move(src, dst):
            types = list(dict.fromkeys((str(src.dtype), str(dst.dtype))))
        case Init(dst):
            types = [str(dst.dtype)]
        case Pointwise(out=out):
            types = [str(out.dtype)]
        case Program(inputs=inputs, outputs=outputs):
            preset = preset or spec.name
            types = list(dict.fromkeys(str(t.dtype) for t in (*inputs[:1], *outputs)))
    words = (preset or type(spec).__name__.lower(), f"{tile}{chunk}", *types)
    return "_".join(word for word in words if word)


def _sizes(tile: Tile) -> str:
    if isinstance(tile.sizes, Widest):
        return ""
    return "x".join(str(_count(n)) for dim, n in tile.sizes if dim != "batch")


def _count(size: Extent) -> object:
    return size.chunk if isinstance(size, Chunks) else size.size if isinstance(size, Layout) else size
