"""Faster versions of the networks: hand-written gradients, packed matrices, Triton kernels, a step for search.

These files may import the readable modules in ``modules/``, which never import them.
"""
