"""Use of trained models without fairseq: loading, translating, scoring, aligning, averaging and exporting."""
