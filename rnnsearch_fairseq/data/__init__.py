"""Training pairs: the length limit, pooled batches, and the trees of source sentences.

May import errors, modules and text.
"""
