"""The fairseq task ``rnnsearch``."""
