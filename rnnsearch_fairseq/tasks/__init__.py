"""The fairseq tasks ``pooled_translation`` and ``tree_translation``.

May import errors, modules, search, text and data.
"""
