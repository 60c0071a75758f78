"""The fairseq optimizer ``adadelta`` and the learning-rate scheduler ``halve_on_worse``."""
