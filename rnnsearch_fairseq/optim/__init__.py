"""fairseq optimizers."""
