"""Updates and search of Marian, if pymarian is installed: its encoder-decoder with attention, of random weights."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np
from fairseq.data import Dictionary
from torch import Tensor

from recipes.benchmark.cases import Size, read_widths
from recipes.benchmark.workloads import WARM_UP, Workload, clock, make_dictionary, random_batch
from rnnsearch_fairseq.errors import InputError

OPTIONS = "--cpu-threads 1 --quiet"  # of all commands
MODEL = "--type s2s --enc-cell gru --dec-cell gru --seed 1"
UPDATE = "--optimizer adam --learn-rate 0.001 --clip-norm 1 --maxi-batch 1 --maxi-batch-sort none --no-shuffle"
EOS_BIAS = "decoder_ff_logit_l2_b"  # the bias of the output layer; end-of-sentence is word 0


class MarianTraining(Workload):
    """Updates of Marian's ``s2s`` model: a bidirectional GRU encoder and a GRU decoder with attention, on random words.

    They are in float32, in one thread, with Adam and gradients clipped to norm 1. The decoder has Marian's usual two
    GRU transitions a step. Marian's module runs only whole trainings, with their start and saving. A round is
    therefore the difference of two: one with an update, which also reserves the memory, and one with the round's, too.

    Args:
        options: the width throughout, or width/embedding.

    Raises:
        InputError: pymarian is not installed, or the options or size do not fit.
    """

    def __init__(self, options: Sequence[str], size: Size, updates: int) -> None:
        self.widths = read_widths(options, size, "marian WIDTH[/EMBEDDING]")
        self.pymarian, self.dictionary = load(), make_dictionary(size.vocabulary)
        batches = [random_batch((self.dictionary, self.dictionary), size) for _ in range(1 + updates)]
        sides = [batch["net_input"]["src_tokens"] for batch in batches], [batch["target"] for batch in batches]
        self.texts = [[line for words in side for line in make_lines(words, self.dictionary)] for side in sides]
        self.options = f"{UPDATE} --mini-batch {size.batch} --max-length {max(size.source, size.target)}"
        self.count = updates * size.batch * size.target
        self.batches = [1 + updates]

    def step(self, batch: int) -> None:
        """Run a training with this number of updates."""
        options = f"{self.options} --workspace 4096 --after-batches {batch}"
        with TemporaryDirectory() as folder:
            run_training(self.pymarian, folder, self.dictionary, self.texts, self.widths, options)

    def round(self) -> tuple[float, float]:
        """Run both trainings; return the differences of their wall and CPU seconds."""
        whole, start = clock(self.work), clock(lambda: self.step(1))
        return whole[0] - start[0], whole[1] - start[1]


class MarianTranslation(Workload):
    """Search by the model of `MarianTraining`, untrained, in float32 and in one thread, on random words.

    Every translation takes as many steps as the size's ``target``: this is the limit, and end-of-sentence gets a bias
    that makes it impossible.

    Args:
        options: the width throughout, or width/embedding, and the beam size.

    Raises:
        InputError: pymarian is not installed, or the options or size do not fit.
    """

    def __init__(self, options: Sequence[str], size: Size, batches: int) -> None:
        *widths, beam = read_widths(options, size, "marian WIDTH[/EMBEDDING] BEAM")
        pymarian, dictionary = load(), make_dictionary(size.vocabulary)
        sources = [random_batch((dictionary, dictionary), size)["net_input"]["src_tokens"] for _ in range(batches)]
        self.batches = [make_lines(source, dictionary) for source in sources]
        self.count = batches * size.batch
        with TemporaryDirectory() as folder:
            model = make_model(pymarian, folder, dictionary, widths)
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


def make_lines(words: Tensor, dictionary: Dictionary) -> list[str]:
    """Make a line of text of each sentence ``(batch, length)``, without end-of-sentence."""
    return [dictionary.string(sentence) for sentence in words]


def vocabularies(folder: str) -> str:
    """The option for the source and target vocabulary, which are equal."""
    return f"--vocabs {folder}/words.json {folder}/words.json"


def run_training(
    pymarian: ModuleType,
    folder: str,
    dictionary: Dictionary,
    texts: Iterable[Sequence[str]],
    widths: Sequence[int],
    options: str,
) -> Path:
    """Train a model with the entries of ``dictionary`` on the source and target ``texts``.

    Args:
        widths: the width of the layers, and the width of the embeddings.

    Returns:
        The model's file in ``folder``, where all else is written, too.
    """
    words = ["</s>", "<unk>", *dictionary.symbols[dictionary.nspecial :]]
    words += [f"filler{number}" for number in range(len(dictionary) - len(words))]  # for fairseq's other two symbols
    Path(folder, "words.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    source, target, model = (Path(folder, name) for name in ("source", "target", "model.npz"))
    for file, lines in zip((source, target), texts):
        file.write_text("".join(f"{line}\n" for line in lines))
    width, embedding = widths
    pymarian.Trainer(
        f"{OPTIONS} {MODEL} --dim-rnn {width} --dim-emb {embedding} --dim-vocabs {len(words)} {len(words)} "
        f"{vocabularies(folder)} --train-sets {source} {target} --model {model} --tempdir {folder} {options}"
    ).train()
    return model


def make_model(pymarian: ModuleType, folder: str, dictionary: Dictionary, widths: Sequence[int]) -> Path:
    """Make a model: Marian writes random weights after an update with rate zero."""
    text = [dictionary.symbols[dictionary.nspecial]]
    options = "--after-batches 1 --mini-batch 1 --workspace 100 --learn-rate 0"
    model = run_training(pymarian, folder, dictionary, [text, text], widths, options)
    weights = dict(np.load(model))
    weights[EOS_BIAS][0, 0] = -1e6
    np.savez(model, **weights)
    return model
