"""Score given translations: ln p(y|x) of each sentence pair and of each target word, with the model's alignment.

Line N of TARGET is scored as the translation of line N of SOURCE. Both are plain text. Each pair gives a line of JSON:
id (from 0), source and target (the model's words, with end-of-sentence), logprob (ln p, not divided by the length),
word_logprobs, and alignment (for each target word, a row of weights of the source words). With trees, it also has
phrases (the first word of each, and the word after its last one, in pre-order) and phrase_attention.

  rnnsearch score raw/test.en raw/test.fr --model checkpoints --output test.scores
"""

import contextlib
import itertools
import math
import sys
from pathlib import Path

from rnnsearch_fairseq.command_line import make_parser
from rnnsearch_fairseq.inference.loading import model_files
from rnnsearch_fairseq.inference.options import add_model_options
from rnnsearch_fairseq.inference.translator import load
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import read_rows

SORTED_TOGETHER = 2_000  # pairs


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="source text, one sentence a line")
    parser.add_argument("target", type=Path, help="its translations, line by line")
    add_model_options(parser)
    prepared = "the text is words separated by spaces, as rnnsearch prepare writes it"
    parser.add_argument("--prepared", action="store_true", help=prepared)
    parser.add_argument("--trees", type=Path, metavar="FILE", help="parses of the source, line by line")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    args = parser.parse_args()
    inputs = [path for path in (args.source, args.target, args.trees) if path is not None]
    check_not_input([args.output], [*inputs, *model_files(args.model)])
    rows = read_rows(*inputs)
    translator = load(args.model, args.device)
    number, words, logprob = 0, 0, 0.0
    with contextlib.nullcontext(sys.stdout.buffer) if args.output is None else open_output(args.output) as out:
        pairs = translator.read_pairs(rows, (f"{args.source}, line", f"{args.target}, line"), args.prepared)
        while chunk := list(itertools.islice(pairs, SORTED_TOGETHER)):
            for pair in translator.align_words(chunk):
                pair.number = number
                out.write(f"{pair.to_json()}\n".encode())
                number, words, logprob = number + 1, words + len(pair.target), logprob + pair.score
        out.flush()
    perplexity = math.exp(min(-logprob / words, 700))  # math.exp(710) is too large for a float
    means = f"{-logprob / number:.4f} nats a sentence, {-logprob / words:.4f} nats a word, perplexity {perplexity:.4f}"
    print(f"scored {number:,} pairs, {words:,} target words with end-of-sentence: {means}", file=sys.stderr)
