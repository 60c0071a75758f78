"""Leave out training pairs that are too long or have no parse, before anything is counted in the text.

TEXT and OUT are names without language: all stands for all.en and all.ja, both tokenised. A pair stays if each side has
1 to --max-words words. With --trees, the parses in TEXT.tree (see transitions.py) are written too, and a pair
without a parse is left out.

  python -m recipes.trees.limit text/train text/kept -s en -t fr --max-words 50
"""

from rnnsearch_fairseq.command_line import count, make_parser, program
from rnnsearch_fairseq.corpus.rows import Rows, add_languages, is_within, texts_of, write_rows
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.text.lines import read_pairs
from rnnsearch_fairseq.text.trees import NO_PARSE


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("text", help="tokenised training text to read, without the language")
    parser.add_argument("out", help="text to write")
    add_languages(parser)
    parser.add_argument("--max-words", type=count, required=True, help="most words of a side (papers: 50)")
    parser.add_argument("--trees", metavar="ENDING", help="ending of the transitions; leave out pairs without a parse")
    args = parser.parse_args()
    endings = [ending for ending in (args.source_lang, args.target_lang, args.trees) if ending]
    text, out = (texts_of(name, *endings) for name in (args.text, args.out))
    check_not_input(out, text)
    pairs = (row for row in read_pairs(*text) if is_within(row[:2], args.max_words))
    rows = Rows(row for row in pairs if NO_PARSE not in map(str.strip, row[2:]))
    if not rows:
        raise InputError(f"--max-words {args.max_words}: no pair of {args.text} is left; give a greater number")
    write_rows(out, rows)
    print(f"{len(rows):,} pairs of at most {args.max_words} words a side -> {args.out}")
