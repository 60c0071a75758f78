"""Translate files: plain text, and the documents of translators."""
