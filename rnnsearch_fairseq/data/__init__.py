"""Corpora: length limits, pooled batches, checks of text files, and a grammar that writes a corpus."""
