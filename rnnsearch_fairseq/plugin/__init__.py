"""All that faces fairseq: models, criterions, optimizers, the task, its data, and what is replaced in fairseq."""
