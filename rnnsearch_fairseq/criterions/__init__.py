"""The fairseq criterions ``summed_nll``, ``smoothed_nll`` and ``blackout``.

May import errors, modules, data and models.
"""
