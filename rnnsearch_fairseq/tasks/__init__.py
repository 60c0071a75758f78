"""The fairseq task ``rnnsearch``.

May import errors, modules, search, text and data.
"""
