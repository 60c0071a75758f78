"""Write a small English-French corpus with word alignments and parses.

Every line is one sentence. recipes/grammar/__init__.py says what the corpus promises.

  python -m recipes.grammar corpus
"""

from pathlib import Path

from recipes.grammar.corpus import SIZES, write_corpus
from rnnsearch_fairseq.command_line import count, make_parser, program


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path, metavar="OUT_DIR", help="folder for train.en, train.fr, train.align, ...")
    for part, size in SIZES.items():
        parser.add_argument(f"--{part}", type=count, default=size, help=f"{part} sentence pairs ({size})")
    parser.add_argument("--seed", type=int, default=1, help="seed of the corpus (1)")
    even = "as many sentences of 11 to 20 words, and of every further ten words, as of up to 10"
    parser.add_argument("--even", action="store_true", help=even)
    args = parser.parse_args()
    sizes = {part: getattr(args, part) for part in SIZES}
    for part, pairs in write_corpus(args.folder, sizes, args.seed, even=args.even).items():
        english = sum(len(pair.source) for pair in pairs)
        words = f"{english / len(pairs):.1f} English words per sentence"
        print(f"{part}.{{en,fr,align,penn}}: {len(pairs)} sentences, {words}")
