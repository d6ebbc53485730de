def test_wgmma_mn_major(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "descriptor-layout",
        "done()",
        """\
DecompositionError[descriptor-layout]: wgmma.m64n128k32.f32.e4m3 (done) takes B in rows of 128 bytes of K one after another, and b_sh has strides 128 and 1
  --> test_wgmma_mn_major.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 128 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 32
fix: store the operand with K contiguous: other orders need 16-bit elements""",  # noqa: E501
    )
