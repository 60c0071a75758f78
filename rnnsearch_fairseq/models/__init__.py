"""The fairseq models ``rnnsearch`` and ``tree2seq``: configuration dataclasses, wrappers of modules/, architectures.

May import errors, modules, text and inference.
"""
