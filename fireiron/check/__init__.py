"""Checks of a link when it is written: one function for each rule."""
