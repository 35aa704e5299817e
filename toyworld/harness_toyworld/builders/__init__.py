"""Builders of the world's benchmark files."""
