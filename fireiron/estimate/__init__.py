"""Layer 6: a schedule's resources and time, from index expressions and an architecture's numbers; nothing runs."""
