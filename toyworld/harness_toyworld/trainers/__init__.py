"""Trainers of what the world needs."""
