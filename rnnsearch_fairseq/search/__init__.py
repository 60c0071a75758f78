"""Search beside fairseq's own: options of generation that work wherever fairseq builds a generator."""
