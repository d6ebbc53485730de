def test_wgmma_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(64, 128, 16)(SH, SH, FR)(Warpgroup): nearest: wgmma.m64n128k16.f32.f16 (it is for sm_90 alone, not sm_100)
  --> test_wgmma_arch.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 16
fix: compile for sm_90""",  # noqa: E501
    )
