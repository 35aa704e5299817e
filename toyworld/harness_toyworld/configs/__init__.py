"""Option files for training on the world."""
