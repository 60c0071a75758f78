"""Translation by Marian, if pymarian is installed: its encoder-decoder with attention, of random weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np
import torch
from fairseq.data import Dictionary

from recipes.benchmark.cases import Size
from recipes.benchmark.workloads import WARM_UP, Workload, make_dictionary, random_batch
from rnnsearch_fairseq.errors import InputError

OPTIONS = "--cpu-threads 1 --quiet"  # of all commands
TRAIN = "--type s2s --enc-cell gru --dec-cell gru --after-batches 1 --mini-batch 1 --workspace 100 --seed 1"
EOS_BIAS = "decoder_ff_logit_l2_b"  # the bias of the output layer; end-of-sentence is word 0


class Marian(Workload):
    """Search by Marian's ``s2s`` model: a bidirectional GRU encoder and a GRU decoder with attention, on random words.

    It is in float32, in one thread. The decoder has Marian's usual two GRU transitions a step. Every translation takes
    as many steps as the size's ``target``: this is the limit, and end-of-sentence gets a bias that makes it impossible.

    Args:
        options: the width throughout, and the beam size.

    Raises:
        InputError: pymarian is not installed, or the options or size do not fit.
    """

    def __init__(self, options: Sequence[str], size: Size, batches: int) -> None:
        if len(options) != 2 or not all(map(str.isdecimal, options)) or size.vocabulary is None:
            raise InputError("marian takes a width and a beam size, as 'marian 256 5', and --vocabulary N")
        pymarian, (width, beam), dictionary = load(), options, make_dictionary(size.vocabulary)
        torch.manual_seed(1)
        sources = [random_batch((dictionary, dictionary), size)["net_input"]["src_tokens"] for _ in range(batches)]
        self.batches = [[dictionary.string(source) for source in batch] for batch in sources]
        self.count = batches * size.batch
        with TemporaryDirectory() as folder:
            model = make_model(pymarian, Path(folder), dictionary, int(width))
            self.translator = pymarian.Translator(
                f"{OPTIONS} --models {model} {vocabularies(folder)} --beam-size {beam} --mini-batch {size.batch} "
                f"--maxi-batch 1 --max-length-factor {size.target / size.source}"
            )
        self.work(WARM_UP)

    def step(self, batch: list[str]) -> list[str]:
        """Translate a batch."""
        return self.translator.translate(batch)


def load() -> ModuleType:
    """Import pymarian's compiled module, which needs no other package.

    Raises:
        InputError: it is missing.
    """
    try:
        import _pymarian
    except ImportError as error:
        raise InputError(
            f"Marian cannot be imported ({error}); install it by pip install --no-deps pymarian"
        ) from error
    return _pymarian


def vocabularies(folder: str | Path) -> str:
    """The option for the source and target vocabulary, which are equal."""
    return f"--vocabs {folder}/words.json {folder}/words.json"


def make_model(pymarian: ModuleType, folder: Path, dictionary: Dictionary, width: int) -> Path:
    """Make a model with the entries of ``dictionary``; Marian writes random weights after an update with rate zero."""
    words = ["</s>", "<unk>", *dictionary.symbols[dictionary.nspecial :]]
    words += [f"filler{number}" for number in range(len(dictionary) - len(words))]  # for fairseq's other two symbols
    Path(folder, "words.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    text, model = Path(folder, "text"), Path(folder, "model.npz")
    text.write_text(words[2] + "\n")
    pymarian.Trainer(
        f"{OPTIONS} {TRAIN} --dim-rnn {width} --dim-emb {width} --dim-vocabs {len(words)} {len(words)} "
        f"{vocabularies(folder)} --train-sets {text} {text} --model {model} --learn-rate 0 --tempdir {folder}"
    ).train()
    weights = dict(np.load(model))
    weights[EOS_BIAS][0, 0] = -1e6
    np.savez(model, **weights)
    return model
