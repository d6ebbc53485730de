"""Drawn chains that were findings once, and are mended: they stay refused, or right."""

from __future__ import annotations

# The smallest chain that showed each, and what the judge says of it now: a code, or "" where the chain is right.
MENDED: dict[str, str] = {
    "matmul(33, 33, 37, 'i8').tile(1, 16).to(Block).epilog(sigmoid).tile(1, 1).to(Thread).split(1)"
    ".load(A, RF).load(B, RF).done()": "fraction-of-integer",
    "matmul(24, 16, 4, 'i8').then(silu)": "fraction-of-integer",
    "matmul(24, 16, 4, 'i8').then(lambda acc: acc * float('inf'))": "fraction-of-integer",
    "hopper.gemm(matmul(132, 68, 160, 'u8', arch='sm_90').prolog(B, clamp_to(-1, 2)))": "constant-range",
    "matmul(1, 1, 1).tile(1, 1).to(Block).epilog(store=through_shared(tma(0), at=Warp))": "move-extents",
    "matmul(1, 1, 1).tile(1, 1).to(Block).epilog(store=through_shared(stmatrix(), at=Warp))": "move-extents",
    "matmul(64, 64, symbol('K_64'), 'f16').tile(64, 64).to(Block).epilog().load(A, SH, tma())": "move-extents",
    "products(Matrix(37, 64), (Matrix(37, 18, name='X'), Matrix(18, 64, name='W')), (Matrix(37, 16, name='H'), "
    "Matrix(16, 64, name='U')), op=lambda p, q: p - q).tile(1, 1).to(Block).split(1).epilog().done()": (
        "split-above-epilog"
    ),
    "matmul(1, 1, 1).tile(1, 1).to(Block).load(B, SH, lambda move: move.tile(1, 1).tile(Strided((1, 1), (1, 0))))": (
        "tile-gaps"
    ),
    "layers(Matrix(36, 32), Matrix(36, 32, name='X'), Matrix(32, 16, name='W'), Matrix(16, 32, name='V'))"
    ".tile(1).to(Block).layout(Grouped(1)).load(A, FR).each(lambda layer: layer.epilog().done())": "tile-order",
    "layers(Matrix(36, 32), Matrix(36, 32, name='X'), Matrix(32, 32, name='W')).tile(Strided((1, 1), (1, 1)))": (
        "argument-kind"
    ),
    "matmul(31, 16, 48, 'tf32').tile(16, 16).to(Block).epilog().split(7).promote().split(4).parallel(Warp)"
    ".load(A, FR).load(B, FR).tile(16, 8).unroll().done()": "parallel-promote",
    "matmul(1, 16, 1).tile(4, 15).to(Block).epilog(store=through_shared(at=Warp)).tile(1, 2).to(Thread)"
    ".load(A, RF).load(B, RF).tile(1, 1).unroll().done()": "",
    "matmul(74, 16, 8).tile(24, 8).to(Block).epilog(store=through_shared(conform(), vector(), panel=(12, 4), ring=2, "
    "at=Warp)).tile(12, 4).to(Warp).tile(3, 2).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll()"
    ".done()": "",
    "matmul(16, symbol('N_8'), 13, layout='TT').tile(16, 16).to(Block).epilog(store=through_shared(at=Warp))"
    ".tile(16, 16).to(Warp).tile(4, 4).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()": "",
    "matmul(64, 16, 8).tile(24, 16).to(Block).epilog(store=through_shared(at=Warp)).tile(16, 16).to(Warp)"
    ".tile(4, 4).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()": "own-level",
    "matmul(1, 8, 1).tile(1, 8).to(Block).epilog(store=through_shared(conform(), tma(0), panel=(1, 4), ring=2))"
    ".tile(1, 1).to(Thread).done(microkernel('C[0] += A[0] * B[0];', numpy=lambda a, b, c: c + a @ b))": "",
    "matmul(1, 264, 1).tile(1, 264).to(Block).epilog(store=through_shared(conform(), tma(0)))"
    ".tile(1, 4).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()": "bulk-alignment",
    "program(x='m n')(lambda x: x + fi.sum(x, 'n'))(tensor(1, 1, name='x')).tile(m=1).to(Block).split('n', ways=2)"
    ".parallel(Warp).epilog(memory=RF).done()": "",
    "program(x='m n')(lambda x: log_softmax(x, 'n'))(tensor(4, 64)).tile(m=1).to(Block).split(n=16).parallel(Warp)"
    ".unroll()": "parallel-pipeline",
    "simt.listing2(matmul(1, 2, 1, beta=1))": "",
    "simt.listing1(matmul(1, 1, 1, 'e4m3', arch='sm_80'))": "conversion-arch",
    "simt.listing2(matmul(256, 256, 128), n=2147483648)": "register-elements",
    "fused.mlp_block(1, 1, path='hopper')": "path-width",
    "fused.mlp_block(1, 1, path='ampere')": "path-width",
    "volta.gemm(matmul(1, 1, 1), warp=(0, 1), ways=2)": "argument-kind",
    "ampere.gemm(matmul(1, 1, 1), warp=(1, 0), ways=2)": "argument-kind",
    "simt.sgemm(matmul(1, 1, 1), warp=(0, 1), ways=2)": "argument-kind",
    "matmul(8, 32, 8).tile(8, 64).tile(8, 32).to(Block).epilog(row_max(Matrix(8, 1, name='folded')), memory=RF)"
    ".split(8).tile(1, 4).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()": "",
    "matmul(4, 128, 32, 'tf32', layout='TN').tile(4, 64).tile(128, 64).to(Block).persistent().epilog().split(32)"
    ".specialize().load(A, SH, tma()).load(B, SH, tma()).tile(128, 64).to(Warpgroup).staggered(2).split(8).tile(64, 8)"
    ".unroll().done()": "staggered-units",
    "matmul(96, 68, 32, 'f16', acc='f16').tile(64, 32).to(Block).epilog(sigmoid).tile(16, 32).to(Warp).split(8)"
    ".load(A, FR).load(B, FR).tile(16, 8).unroll().done()": "",
    "conv.wgmma(conv.conv2d_grouped(tensor(1, 3, 1, 2, 8, dtype='f16'), tensor(2, 9, 1, 1, 8, dtype='f16'), "
    "stride=(2, 1)), channels=8, cluster=2)": "",
    "conv.wgmma(conv.conv2d(tensor(1, 7, 4, 16, dtype='f16'), tensor(72, 3, 3, 16, dtype='f16', name='f'), "
    "stride=2))": "",
    "program(x='m n', v='n')(lambda x, v: fi.sum(x, 'n') + v)(tensor(1, 196), tensor(196)).tile(m=1).layout(Grouped(1))"
    ".to(Block).done()": "ownership-unknown",
    "conv.wgmma(conv.conv2d_grouped(tensor(1, 2, 3, 2, 8, dtype='tf32'), tensor(2, 2, 1, 3, 8, dtype='tf32')))": "",
    "conv.wgmma(conv.conv3d(tensor(1, 2, 4, 5, 64, dtype='f16'), tensor(65, 2, 2, 3, 64, dtype='f16'), pad=1))": "",
    "matmul(1, 1, 1).tile(128, 32).to(Block).persistent().tile(128, 32).to(Block).staggered(2)"
    ".done()": "staggered-units",
    "matmul(24, 10, 4, layout='TN', arch='sm_90').tile(4, 2).to(Block).epilog(memory=RF).split(4).specialize()"
    ".load(A, SH, staged()).load(B, SH, staged()).tile(2, 1).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1)"
    ".unroll().done()": "role-warps",
    "program(x='m n')(lambda x: softmax(x, 'n'))(tensor(4, 64)).tile(m=1).to(Block).split(n=16).online().split(n=8)"
    ".tile(m=1).to(Thread).done()": "online-inside",
    "matmul(16, 16, 8, groups=2).tile(4, 4, batch=1).tile(4, 4).to(Block).done(microkernel('for (int i = 0; i < M; ++i)"
    " for (int j = 0; j < N; ++j) C[i * C_row + j * C_col] = 0;', numpy=lambda a, b, c: a @ b))": "group-tile",
    "conv.conv2d(tensor(1, 3, 1, 4), tensor(1, 3, 1, 4)).tile(k=1).to(Block).load('x', SH).tile(k=1).to(Thread)"
    ".split(r=2).load('x', RF).done()": "",
}
