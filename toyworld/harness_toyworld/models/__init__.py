"""Models trained on the world."""
