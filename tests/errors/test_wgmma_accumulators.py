def test_wgmma_accumulators(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "registers",
        "to(Warpgroup)",
        """\
CheckError[registers]: a thread's tensors take 257 registers at once, its role math has 240: acc 256, C_vec 1
  --> test_wgmma_accumulators.py:23:10
23 |         .to(Warpgroup)
   |          ^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 256x256 to Block > epilog > split 64 > load A to SH > load B to SH > tile 128x256 to Warpgroup
fix: give each thread a smaller tile, or its role more registers""",  # noqa: E501
    )
