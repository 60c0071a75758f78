"""The translation page and its JSON API: ``rnnsearch serve``."""
