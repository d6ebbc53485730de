def test_wgmma_width_of_integers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(64, 40, 32)(SH, SH, FR)(Warpgroup): nearest: wgmma.m64n32k32.i32.i8 (its shape is 64x32x32, not 64x40x32)
  --> test_wgmma_width_of_integers.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x40 to Block > epilog > split 128 > load A to SH > load B to SH > tile 64x40 to Warpgroup > split 32
fix: tile(64, 32)""",  # noqa: E501
    )
