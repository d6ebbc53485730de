"""Levels, memories, tensors, specs, programs and decompositions: data, and the pure rewrites on it."""
