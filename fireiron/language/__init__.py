"""Levels, memories, tensors, specs, programs and decompositions: records, and pure functions on them."""
