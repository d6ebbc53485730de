def test_tma_stride(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-stride",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-stride]: lines of A[512, 500].f16.GL lie 1000 bytes apart, and tma.load.2d.128B takes multiples of 16
  --> test_tma_stride.py:20:10
20 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x500 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > tile 128x64 > tile 128x64 to Thread
fix: pad lines to multiples of 8 elements (ld=), or load by cp_async()""",  # noqa: E501
    )
