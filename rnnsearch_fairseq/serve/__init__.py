"""A page to translate on, and the JSON API beside it: ``python -m rnnsearch_fairseq.serve``."""
