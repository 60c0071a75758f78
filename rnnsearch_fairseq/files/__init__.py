"""Reading, checking and writing files: checkpoints, pickles, binarized data, text, scores and translations."""
