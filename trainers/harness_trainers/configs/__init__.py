"""Option files for training."""
