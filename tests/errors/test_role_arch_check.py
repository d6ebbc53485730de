def test_role_arch_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "specialize()",
        """\
CheckError[arch]: roles that load by bulk copies need sm_90, not sm_80
  --> test_role_arch_check.py:18:10
18 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block
fix: drop specialize(), and load by cp_async() in a pipeline""",
    )
