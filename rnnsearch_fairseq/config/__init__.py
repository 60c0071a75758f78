"""The Hydra configuration of the first paper's models; this room has no code.

``fairseq-hydra-train --config-path pkg://rnnsearch_fairseq.config --config-name rnnsearch50 task.data=DATA``
"""
