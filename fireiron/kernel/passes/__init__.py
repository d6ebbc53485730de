"""Passes over finished statements."""
