"""The fairseq criterions ``summed_nll``, ``smoothed_nll`` and ``blackout``."""
