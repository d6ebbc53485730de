"""The Triton kernel itself: Triton reads its source from this file."""

# Constants have capital names, as is usual in Triton; Triton checks the types.
# pyright: basic, reportMissingImports=false

from importlib.util import find_spec

if find_spec("triton") is not None:  # the docstrings of this folder are tested without it
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(
        A, B, C, ROW, M, N, K, sam, sak, sbk, sbn, scm, scn,
        BIAS: tl.constexpr, RELU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ):  # fmt: skip
        """Compute one tile of C; tiles are visited eight rows of tiles at a time."""
        tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
        index = tl.program_id(0)
        group = index // (8 * tiles_n)
        rows = min(tiles_m - group * 8, 8)
        m0 = (group * 8 + index % (8 * tiles_n) % rows) * BM
        n0 = (index % (8 * tiles_n) // rows) * BN
        m, n, k = m0 + tl.arange(0, BM), n0 + tl.arange(0, BN), tl.arange(0, BK)
        a = A + (m % M)[:, None].to(tl.int64) * sam + k[None, :] * sak
        b = B + k[:, None] * sbk + (n % N)[None, :].to(tl.int64) * sbn
        whole = tl.int32 if C.dtype.element_ty == tl.int32 else tl.float32
        acc = tl.zeros((BM, BN), dtype=whole)
        for step in range(0, tl.cdiv(K, BK)):
            left = K - step * BK
            acc = tl.dot(
                tl.load(a, mask=k[None, :] < left, other=0),
                tl.load(b, mask=k[:, None] < left, other=0),
                acc,
                out_dtype=whole,
            )
            a += BK * sak
            b += BK * sbk
        if BIAS:
            acc += tl.load(ROW + n, mask=n < N, other=0).to(whole)[None, :]
        if RELU:
            acc = tl.maximum(acc, 0)
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(C + m[:, None].to(tl.int64) * scm + n[None, :] * scn, acc.to(C.dtype.element_ty), mask=inside)
