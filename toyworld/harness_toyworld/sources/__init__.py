"""Training records of the world."""
