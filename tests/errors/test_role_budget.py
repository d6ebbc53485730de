def test_role_budget(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-registers",
        "specialize(registers=(24, 100))",
        """\
DecompositionError[role-registers]: specialize(producers=1, registers=(24, 100)): a budget of 100 registers
  --> test_role_budget.py:19:10
19 |         .specialize(registers=(24, 100))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64
fix: give at least one producer, and budgets that are multiples of 8 from 24 to 256""",
    )
