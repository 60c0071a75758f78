"""Use of trained models: loading, translating, scoring and aligning text, averaging, replacing unknown words."""
