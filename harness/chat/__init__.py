"""Asking an OpenAI-compatible chat endpoint, for models and judges: wire, pace, pictures."""
