"""Training pairs: the length limit, the order, and the trees of source sentences."""
