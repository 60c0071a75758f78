"""Faster versions of the networks: hand-written gradients, packed matrices, Triton kernels, a step for search.

``dispatch`` chooses the kernels for a tensor: ``kernels`` (PyTorch) or ``triton_kernels`` (a GPU), which have the same
functions.

These files may import the readable modules in ``modules/``, which never import them.
"""
