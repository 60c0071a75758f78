"""Convert a model trained by the original GroundHog code, RNNsearch or RNNencdec, to a fairseq checkpoint.

``checkpoint.pt`` and two dictionaries are written to OUT, over an earlier conversion. The converted model gives the
same probabilities, and can be trained further. How to make the JSON files: recipes/groundhog/README.md

  python -m recipes.groundhog search_model.npz search_state.json vocab.en.json vocab.fr.json converted -s en -t fr
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recipes.groundhog.files import Settings, read_arrays, read_settings, read_words
from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.inference.loading import Member, write_member
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.text.settings import TextSettings
from rnnsearch_fairseq.text.vocabulary import SPECIAL, Vocabulary

# The ids of words differ:
#
#   symbol           GroundHog                    fairseq
#   <s>              0; no sentence contains it   0
#   <pad>            none                         1
#   end of sentence  null_sym, after all words    2
#   unknown word     unk_sym, 1                   3
#   words            from 2                       from 4
#
# The bias of <pad>, which GroundHog lacks. In float32 e^-100 vanishes beside any other word, so the probabilities stay
# the same; unlike -inf, it keeps label smoothing and gradients finite.
PAD_BIAS = -100.0


def make_parameters(arrays: dict[str, np.ndarray], settings: Settings) -> dict[str, Tensor]:
    """Make the parameters of :class:`~rnnsearch_fairseq.modules.rnnsearch.RNNsearch`, by name."""

    def convert_array(name: str, axes: str) -> np.ndarray:
        # A vocabulary is the first axis of an embedding, and the last, like all outputs, of the softmax.
        array = arrays[name] if axes in ("xm", "ym") else arrays[name].T
        pad = PAD_BIAS if axes == "y" else 0.0
        for letter, symbols in (("x", settings.source), ("y", settings.target)):
            if letter in axes:
                array = symbols.rearrange(array, pad)
        return array

    return {
        parameter: torch.from_numpy(np.concatenate([convert_array(name, axes) for name, axes in origins.items()]))
        for parameter, origins in settings.parameters().items()
    }


def make_config(settings: Settings, arrays: dict[str, np.ndarray]) -> RNNsearchConfig:
    """The architecture of the model, and its sizes."""
    sizes = {
        "embedding_size": settings.embedding,
        "hidden_size": settings.units,
        "maxout_size": settings.units // settings.pool,
        "maxout_pool": settings.pool,
        "output_rank": settings.embedding,
    }
    if settings.searches:
        sizes["alignment_size"] = arrays["B_dec_transition_0"].shape[1]
    architecture = ARCHITECTURES["groundhog_search" if settings.searches else "groundhog_encdec"]
    return RNNsearchConfig.from_values(architecture | sizes)


def convert(model: Path, state: Path, vocabularies: tuple[Path, Path], languages: tuple[str, str], out: Path) -> None:
    """Write ``out/checkpoint.pt`` and ``out/dict.LANGUAGE.txt``; an InputError unless the four files fit together."""
    settings = read_settings(state)
    words = [read_words(path, symbols) for path, symbols in zip(vocabularies, (settings.source, settings.target))]
    arrays = read_arrays(model, settings)
    config = make_config(settings, arrays)
    source, target = (Vocabulary([*SPECIAL, *side_words]) for side_words in words)
    network = RNNsearch(config, len(source), len(target))
    network.load_state_dict(make_parameters(arrays, settings))
    out.mkdir(parents=True, exist_ok=True)
    text = TextSettings(languages, (source, target), preparations=None)
    write_member(out / "checkpoint.pt", Member("rnnsearch", config, network, text))
    for language, vocabulary in zip(languages, text.vocabularies):
        vocabulary.write(out / f"dict.{language}.txt")
    print(f"{'RNNsearch' if settings.searches else 'RNNencdec'} -> {out / 'checkpoint.pt'}")


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model", type=Path, help="GroundHog's parameters, .npz")
    parser.add_argument("state", type=Path, help="GroundHog's settings, saved beside them, as .json")
    parser.add_argument("vocab_src", type=Path, help="source vocabulary, from word to id, as .json")
    parser.add_argument("vocab_trg", type=Path, help="target vocabulary")
    parser.add_argument("out", type=Path, help="folder to write; made if it is not there")
    parser.add_argument("-s", "--source-lang", required=True, help="source language, such as en")
    parser.add_argument("-t", "--target-lang", required=True, help="target language")
    args = parser.parse_args()
    convert(args.model, args.state, (args.vocab_src, args.vocab_trg), (args.source_lang, args.target_lang), args.out)
