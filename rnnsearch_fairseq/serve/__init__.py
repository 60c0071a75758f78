"""A page to translate on, and the JSON API beside it: ``rnnsearch serve``."""
