"""Tables, figures and alignments, from the files that fairseq writes; nothing here loads a model."""
