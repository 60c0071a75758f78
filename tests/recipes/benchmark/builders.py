"""What the tests of the benchmarks build."""

from shlex import split

TINY = split("--arch bahdanau_gru_small --embedding-size 8 --hidden-size 8 --alignment-size 8 --maxout-size 8")
WORDS = split("--arch anmt_small --embedding-size 8 --hidden-size 8")
TRAIN = split("--task translation --criterion summed_nll --optimizer adam --lr 0.001 --clip-norm 1 --cpu")
