"""The convolution that AKG generates for Volta's tensor cores, as a schedule of `conv.conv2d`.

Source: the kernel of AKG, MindSpore's generator, for a V100, 32 images of 32x32x64 and 128 filters of 5x5.
"""

from __future__ import annotations

from fireiron import (
    FR,
    SH,
    Block,
    ColMajor,
    FireironError,
    Layout,
    ProgramChain,
    QuadPair,
    Schedule,
    StepChain,
    Strided,
    Warp,
    conform,
    preset,
    space,
    staged,
    through_shared,
)
from fireiron.schedules._quad_pairs import exchange
from fireiron.schedules.conv import conv2d

DTYPE = "f16"  # default element type on the command line


@preset
@space("sm_70", images=(16, 32), filters=(32, 64, 128), depth=(16, 32, 64))
def conv(spec: ProgramChain, images: int = 32, filters: int = 128, depth: int = 64) -> Schedule:
    """Schedule a convolution for sm_70: the rows of a tile are images, at two neighbouring pixels.

    A block has `images` images, two pixels of one row, and `filters` filters; each warp takes 16 images and 32 filters,
    in fragments of 16x16x8. Loads go through registers to rows of `depth` channels in shared memory, with a pad of 8
    elements; the next tap is loaded to registers while one is computed. The result is stored through shared memory.

    Args:
        spec: `conv.conv2d` of f16 without groups.
        images: number of images of a tile, a multiple of 16.
        filters: number of filters of a tile, a multiple of 32.
        depth: number of channels of a chunk, a multiple of 8.

    Raises:
        FireironError: `conv-product` for another program.
    """
    of_product = any(s.is_product for s in spec.computed.steps)
    if spec.computed.name != conv2d.name or not of_product or len(spec.computed.outputs) != 1:
        raise FireironError(
            "conv-product",
            f"akg.conv schedules conv2d without groups, not {spec.computed.name}",
            fix="give conv.conv2d(...) of f16 arrays",
        )

    def by_quad_pairs(y: StepChain) -> Schedule:
        y = y.split(8).unroll().load("A", FR, conform()).load("B", FR, conform()).tile(16, 16).unroll()
        # Four rows of every eight: the quad-pairs of a warp then read and write different banks.
        return y.tile(Strided((4, 8), (4, 8))).to(QuadPair).layout(ColMajor).split(4).unroll().done()

    (y,) = spec.computed.outputs
    # A product's rows are an image's two pixels, then the next image's.
    (_, pixel), (_, image), (pairs, others), _ = exchange(2 * images, filters, y.dtype).leaves
    order = Layout(((2, pairs), 1, 2, filters), ((image, others), 0, pixel, 1))
    return (
        spec.tile(n=images, p=1, q=2, k=filters).to(Block)
        .epilog(memory=FR, store=through_shared(order=order, reuse=True))
        .split(r=1, s=1, c=depth).pipeline(2)
        .load("x", SH, staged()).pad(8).load("f", SH, staged()).pad(8)
        .tile(n=16, k=32).to(Warp).each(product=by_quad_pairs)
    )  # fmt: skip
