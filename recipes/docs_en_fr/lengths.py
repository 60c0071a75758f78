"""Choose pairs of all lengths from a text of which most sentences are short.

TEXT and OUT are names without language: text/test stands for text/test.en and text/test.fr. The bins are those of
``recipes.reproduce.by_length``, ten words of source length each, and one of all sentences of more than --longest words.
Of each bin OUT gets all pairs or, where they are more than --most, so many of them, drawn by chance.

  python -m recipes.docs_en_fr.lengths text/held_out text/test -s en -t fr
"""

from recipes.reproduce.bahdanau_tables import draw_sentences
from recipes.reproduce.by_length import WIDTH
from recipes.reproduce.systems import TestSet, read_parallel
from rnnsearch_fairseq.command_line import count, make_parser, program
from rnnsearch_fairseq.corpus.rows import add_languages, texts_of, write_rows
from rnnsearch_fairseq.output import check_not_input


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("text", metavar="TEXT", help="text to choose from, in words or pieces of BPE")
    parser.add_argument("out", metavar="OUT", help="text to write")
    add_languages(parser)
    parser.add_argument("--most", type=count, default=200, help="most pairs of a bin (default: 200)")
    parser.add_argument("--longest", type=count, default=70, help="words of the last whole bin (default: 70)")
    args = parser.parse_args()
    languages = args.source_lang, args.target_lang
    text, out = texts_of(args.text, *languages), texts_of(args.out, *languages)
    test = TestSet(*read_parallel(*text))
    bins = [test.select_length(*bin) for bin in test.bins(WIDTH, args.longest)]
    chosen = sorted(number for sentences in bins for number in draw_sentences(sentences, args.most))
    check_not_input(out, text)
    write_rows(out, ((test.source[number], test.reference[number]) for number in chosen))
    print(f"{len(chosen):,} of {len(test):,} pairs -> {args.out}")
