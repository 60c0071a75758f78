"""The fairseq criterions ``summed_nll`` and ``blackout``.

May import errors, modules, files and data.
"""
