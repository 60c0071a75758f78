"""Pictures of alignments, of attention to phrases, and of learning curves."""
