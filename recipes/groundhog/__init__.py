"""Models of GroundHog, the original code of the first paper: reading their files, and converting them for fairseq."""
