def test_tma_by_hand(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "descriptor-layout",
        "done()",
        """\
DecompositionError[descriptor-layout]: wgmma.m64n128k16.f32.f16 (done) takes A in swizzled rows of 128, 64 or 32 bytes, and a_sh is not swizzled so
  --> test_tma_by_hand.py:27:10
27 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 16
fix: load by tma(128), tma(64) or tma(32), which lay the buffer out for it""",  # noqa: E501
    )
