def test_setmaxnreg_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "specialize(registers=(24, 240))",
        """\
DecompositionError[arch]: register budgets of roles need sm_100a, not sm_100
  --> test_setmaxnreg_arch.py:17:10
17 |         .specialize(registers=(24, 240))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64
fix: drop registers=, or compile for that target: its suffix a is what adds them""",
    )
