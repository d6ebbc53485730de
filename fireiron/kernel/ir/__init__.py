"""Kernel IR: statements, declarations, and their rewriting."""
