"""The parts of the index expressions; import them through `fireiron.algebra.expr`."""
