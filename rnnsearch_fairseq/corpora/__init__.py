"""Raw text to the text that fairseq-preprocess reads, in the order in which a corpus is made.

selection      choose text of a domain from a large corpus
prepare, wmt   split text into tokens or subwords; wmt does so for text of any size, by several processes
               prepare also reads one corpus (pairs), splits it (split) and prints what comes next (next_commands)
aspec, wat     the English-Japanese corpus ASPEC-JE, and its Japanese as the Workshop on Asian Translation prepares it
link_grammar   parse English text
parses         convert parses to the transitions that tree models read
limit          leave out training pairs that are too long or have no parse
passages       join sentences to passages, which test long inputs
grammar        a corpus of its own, with gold alignments and parses
scripts        writing systems that put no blanks between words
texts          what the commands on parallel text have in common
"""
