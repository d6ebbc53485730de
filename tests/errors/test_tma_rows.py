def test_tma_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-storage",
        "load(B, SH, tma())",
        """\
DecompositionError[bulk-storage]: rows of 96 elements of f16 are no whole number of 128-byte spans
  --> test_tma_rows.py:21:10
21 |         .load(B, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x96 to Block > epilog > split 64 > load A to SH
fix: use a multiple of 64 elements, or a narrower span: tma(64)""",
    )
