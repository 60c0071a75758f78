"""fairseq models: a configuration dataclass, the wiring of modules/, and the named architectures."""
