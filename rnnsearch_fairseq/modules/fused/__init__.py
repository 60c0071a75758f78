"""Faster versions of the networks: hand-written gradients, packed matrices, a step for search."""
