"""Training records from files."""
