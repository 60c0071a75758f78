"""The fairseq criterions ``summed_nll``, ``rdrop`` and ``blackout``.

May import errors, modules, files and data.
"""
