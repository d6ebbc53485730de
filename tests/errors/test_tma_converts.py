def test_tma_converts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-dtype",
        'load(A, SH, tma(), dtype="tf32")',
        """\
DecompositionError[bulk-dtype]: tma.load.2d.128B converts nothing, not f32 to tf32
  --> test_tma_converts.py:20:10
20 |         .load(A, SH, tma(), dtype="tf32")
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 32 > load A to SH > tile 128x32 > tile 128x32 to Thread
fix: convert where registers hold the values""",  # noqa: E501
    )
