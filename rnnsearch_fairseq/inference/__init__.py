"""Use of trained models without fairseq: loading, translating, scoring, aligning and exporting."""
