"""Tasks that only this world can score."""
