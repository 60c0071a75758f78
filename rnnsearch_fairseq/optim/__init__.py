"""The fairseq optimizer ``adadelta``.

May import errors, modules, files and data.
"""
