"""fairseq's four symbols, the first ones of every vocabulary."""

BOS, PAD, EOS, UNK = range(4)
