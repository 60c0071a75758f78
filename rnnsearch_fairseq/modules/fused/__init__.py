"""Faster versions of the networks: hand-written gradients, packed matrices, Triton kernels, a step for search.

They may import the readable modules in ``modules/``, which never import them.
"""
