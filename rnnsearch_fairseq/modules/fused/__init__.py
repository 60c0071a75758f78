"""Faster versions of the networks: hand-written gradients, packed matrices, Triton kernels, a step for search."""
