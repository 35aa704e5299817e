"""Judges that go by rule."""
