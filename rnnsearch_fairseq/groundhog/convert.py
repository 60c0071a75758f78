"""Convert a model trained by the original GroundHog code, RNNsearch or RNNencdec, to a fairseq checkpoint.

``rnnsearch convert-groundhog MODEL.npz STATE VOCAB_SRC VOCAB_TRG OUT_DIR``

STATE (``search_state``) and the vocabularies (``vocab.en``, ``vocab.fr``) are GroundHog's ``.pkl`` files, or the same
as ``.json``. ``checkpoint.pt`` and two dictionaries are written to OUT_DIR, over an earlier conversion. The converted
model gives the same probabilities, and can be trained further.

The ids of words differ:

===================  =============================  =======
symbol               GroundHog                      fairseq
===================  =============================  =======
``<s>``              0; no sentence contains it     0
``<pad>``            none                           1
end of sentence      ``null_sym``, after all words  2
unknown word         ``unk_sym``, 1                 3
words                from 2                         from 4
===================  =============================  =======
"""

import argparse
import contextlib
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from omegaconf import OmegaConf
from torch import Tensor

from rnnsearch_fairseq.criterions.summed_nll import SummedNLL
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.groundhog.files import Settings, read_arrays, read_settings, read_words
from rnnsearch_fairseq.optim.adadelta import Adadelta
from rnnsearch_fairseq.output import write_whole

# The bias of <pad>, which GroundHog lacks. In float32 e^-100 vanishes beside any other word, so the probabilities stay
# the same; unlike -inf, it keeps label smoothing and gradients finite.
PAD_BIAS = -100.0

# The count of every word: GroundHog's vocabularies have none, and fairseq needs them only to build a dictionary.
COUNT = 1


def make_dictionary(words: list[str]) -> Dictionary:
    """Build fairseq's dictionary of ``words``; a word spelt like a symbol of fairseq, such as <unk>, stays a word."""
    dictionary = Dictionary()
    for word in words:
        hides_symbol = word in dictionary
        number = dictionary.add_symbol(word, COUNT, overwrite=True)
        if hides_symbol:
            # The file needs the flag. Dictionary.save has no option for it, but writes the count as it is.
            dictionary.count[number] = f"{COUNT} #fairseq:overwrite"
    return dictionary


def make_parameters(arrays: dict[str, np.ndarray], settings: Settings) -> dict[str, Tensor]:
    """Make the fairseq model's parameters, by name."""

    def convert_array(name: str, axes: str) -> np.ndarray:
        # A vocabulary is the first axis of an embedding, and the last, like all outputs, of the softmax.
        array = arrays[name] if axes in ("xm", "ym") else arrays[name].T
        pad = PAD_BIAS if axes == "y" else 0.0
        for letter, symbols in (("x", settings.source), ("y", settings.target)):
            if letter in axes:
                array = symbols.rearrange(array, pad)
        return array

    stacked = {
        parameter: np.concatenate([convert_array(name, axes) for name, axes in origins.items()])
        for parameter, origins in settings.parameters().items()
    }
    return {parameter: torch.from_numpy(np.ascontiguousarray(array)) for parameter, array in stacked.items()}


def architecture_words(settings: Settings, arrays: dict[str, np.ndarray]) -> list[str]:
    """The options of ``fairseq-train`` that describe the model."""
    options = {
        "arch": "groundhog_search" if settings.searches else "groundhog_encdec",
        "embedding-size": settings.embedding,
        "hidden-size": settings.units,
        "maxout-size": settings.units // settings.pool,
        "maxout-pool": settings.pool,
        "output-rank": settings.embedding,
    }
    if settings.searches:
        options["alignment-size"] = arrays["B_dec_transition_0"].shape[1]
    return [word for option, value in options.items() for word in (f"--{option}", str(value))]


def make_checkpoint(model: dict[str, Tensor], model_words: list[str], languages: tuple[str, str]) -> dict[str, Any]:
    """Build a checkpoint like ``Trainer.state_dict`` with --no-save-optimizer-state, before the first update.

    The configuration is the paper's training. There is no optimizer's state, because GroundHog saves none; so training
    can go on with any optimizer and criterion, without a ``--reset-...`` option.
    """
    training = shlex.split("--optimizer adadelta --lr 1.0 --clip-norm 1.0 --criterion summed_nll --batch-size 80")
    parsed = parse_args_and_arch(get_training_parser(), [".", "--task", "translation", *training, *model_words])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hydra warns about fairseq's old configuration
        cfg = OmegaConf.to_container(convert_namespace_to_omegaconf(parsed), resolve=True, enum_to_str=True)
    cfg["task"] |= {"source_lang": languages[0], "target_lang": languages[1]}
    return {
        "args": None,
        "cfg": cfg,
        "model": model,
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": SummedNLL.__name__,
                "optimizer_name": Adadelta.__name__,
                "lr_scheduler_state": {"best": None},
                "num_updates": 0,
            }
        ],
        "task_state": {},
        "extra_state": {"train_iterator": {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}},
    }


def write_all(out: Path, dictionaries: dict[str, Dictionary], checkpoint: dict[str, Any]) -> None:
    """Write the dictionaries, by file name, and ``checkpoint.pt``; after a failure, all old files are still there.

    Raises:
        InputError: they cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:  # renames the files at its end
            for name, dictionary in dictionaries.items():
                dictionary.save(str(stack.enter_context(write_whole(out / name)).name))
            torch.save(checkpoint, stack.enter_context(write_whole(out / "checkpoint.pt")))
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder") from error


def convert(model: Path, state: Path, vocabularies: tuple[Path, Path], languages: tuple[str, str], out: Path) -> None:
    """Write ``out/checkpoint.pt`` and ``out/dict.LANGUAGE.txt``, and print how to use them.

    Args:
        vocabularies: the source and target vocabularies.
        languages: the source and target language, for the names of the dictionaries.

    Raises:
        InputError: an input is missing or damaged, the inputs do not match, or the model is of another kind.
    """
    check_languages(languages)
    settings = read_settings(state)
    dictionaries = {
        f"dict.{language}.txt": make_dictionary(read_words(path, symbols))
        for language, path, symbols in zip(languages, vocabularies, (settings.source, settings.target))
    }
    arrays = read_arrays(model, settings)
    model_words = architecture_words(settings, arrays)
    checkpoint = make_checkpoint(make_parameters(arrays, settings), model_words, languages)
    write_all(out, dictionaries, checkpoint)
    print(f"{'RNNsearch' if settings.searches else 'RNNencdec'} -> {out / 'checkpoint.pt'}")
    for name, dictionary in dictionaries.items():
        print(f"{len(dictionary) - dictionary.nspecial:,} words -> {out / name}")
        if any(isinstance(count, str) for count in dictionary.count):
            print("  with a word spelt like a symbol of fairseq: copy it over the file that fairseq-preprocess writes")
    print_commands(out, languages, model_words)


def check_languages(languages: tuple[str, str]) -> None:
    """Check that ``languages`` can name two files.

    Raises:
        InputError: they are equal, or one is empty or holds characters other than letters, digits, ``_`` and ``-``.
    """
    for language in languages:
        if not re.fullmatch(r"[\w-]+", language):
            raise InputError(f"the language {language!r} cannot be part of a file name; give a code, as -s en -t fr")
    if languages[0] == languages[1]:
        raise InputError(f"both languages are {languages[0]!r}; give two, as -s en -t fr")


def guess_languages(vocabularies: tuple[Path, Path]) -> tuple[str, str]:
    """Guess en and fr from vocab.en.pkl and vocab.fr.pkl; src and trg if the names differ from this form or agree."""
    found = [re.fullmatch(r"vocab\.([\w-]+)\.(pkl|json)", path.name) for path in vocabularies]
    if found[0] and found[1] and found[0][1] != found[1][1]:
        return found[0][1], found[1][1]
    return "src", "trg"


def print_commands(out: Path, languages: tuple[str, str], model_words: list[str]) -> None:
    """Print the commands that translate with a converted model as GroundHog does, and train it further."""
    pair = ["-s", languages[0], "-t", languages[1]]
    plugin, checkpoint = ["--user-dir", str(Path(__file__).resolve().parents[1])], str(out / "checkpoint.pt")
    search = ["--task", "pooled_translation", "--search", "groundhog", "--beam", "10", "--unnormalized"]
    print("To translate, one tokenised sentence a line, as GroundHog does:")
    print(" ", shlex.join(["fairseq-interactive", str(out), *plugin, "--path", checkpoint, *pair, *search]))
    print("To train it further, on text/{train,valid}.{" + ",".join(languages) + "}:")
    texts = ["--trainpref", "text/train", "--validpref", "text/valid", "--destdir", "bin"]
    for option, language in zip(("--srcdict", "--tgtdict"), languages):
        texts += [option, str(out / f"dict.{language}.txt")]
    print(" ", shlex.join(["fairseq-preprocess", *plugin, *pair, *texts]))
    print(" ", shlex.join(["fairseq-train", "bin", *plugin, *model_words, "--finetune-from-model", checkpoint]))


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("model", type=Path, help="GroundHog's parameters, .npz")
    parser.add_argument("state", type=Path, help="GroundHog's settings, saved beside them, .pkl or .json")
    parser.add_argument("vocab_src", type=Path, help="source vocabulary, from word to id, .pkl or .json")
    parser.add_argument("vocab_trg", type=Path, help="target vocabulary")
    parser.add_argument("out", type=Path, help="folder to write; made if it is not there")
    guess = "default: en for vocab.en.pkl, if both files are named like this; else"
    parser.add_argument("-s", "--source-lang", help=f"source language ({guess} src)")
    parser.add_argument("-t", "--target-lang", help=f"target language ({guess} trg)")
    args = parser.parse_args()
    vocabularies = (args.vocab_src, args.vocab_trg)
    guessed = guess_languages(vocabularies)
    languages = (args.source_lang or guessed[0], args.target_lang or guessed[1])
    print(f"languages: {languages[0]} to {languages[1]}; give others by -s and -t")
    convert(args.model, args.state, vocabularies, languages, args.out)
