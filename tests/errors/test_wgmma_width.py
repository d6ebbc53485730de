def test_wgmma_width(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(64, 12, 16)(SH, SH, FR)(Warpgroup): nearest: wgmma.m64n8k16.f32.f16 (its shape is 64x8x16, not 64x12x16)
  --> test_wgmma_width.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x12 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x12 to Warpgroup > split 16
fix: tile(64, 8)""",  # noqa: E501
    )
