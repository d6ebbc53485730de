"""Passes over a kernel's statements, after lowering."""
