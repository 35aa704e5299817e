"""Evaluate region-level vision-language models: official numbers, intervals, provenance."""
