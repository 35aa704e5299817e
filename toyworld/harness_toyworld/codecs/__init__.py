"""Codecs trained on the world."""
