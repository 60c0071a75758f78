"""Hydra configurations: ``fairseq-hydra-train --config-path pkg://rnnsearch_fairseq.config --config-name NAME``."""
