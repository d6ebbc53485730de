"""Layer 6: what a schedule needs and costs, from its index expressions and an architecture's numbers; nothing runs."""
