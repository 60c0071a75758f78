"""Use of trained models: loading, translating, scoring, aligning, averaging, exporting, replacing unknown words."""
