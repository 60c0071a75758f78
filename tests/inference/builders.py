"""Checkpoints of several architectures, and the pairs and scores that go with them."""

import json
from pathlib import Path

from fairseq.tasks.translation import TranslationTask

from tests.builders import (
    PAIRS,
    SMALL,
    SOURCE_WORDS,
    TARGET_WORDS,
    Pair,
    make_dictionary,
    parse_training,
    randomize,
    save_checkpoint,
)

SIZES = [word for name, size in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(size))]
TRANSFORMER = ["--optimizer", "adam", "--max-source-positions", "30", "--max-target-positions", "30"]
for side in ("encoder", "decoder"):
    TRANSFORMER += [f"--{side}-embed-dim", "8", f"--{side}-ffn-embed-dim", "8"]
    TRANSFORMER += [f"--{side}-layers", "1", f"--{side}-attention-heads", "2"]
LSTM = ["--optimizer", "adam", "--encoder-layers", "1", "--decoder-layers", "1", "--decoder-out-embed-dim", "8"]
for width in ("encoder-embed-dim", "decoder-embed-dim", "encoder-hidden-size", "decoder-hidden-size"):
    LSTM += [f"--{width}", "8"]
# Architecture, its options, and the scale of the random parameters.
MODELS: dict[str, tuple[str, list[str], float]] = {
    "search": ("bahdanau_gru", SIZES, 0.5),
    "other": ("bahdanau_gru", SIZES, 0.9),
    "encdec": ("rnnencdec", SIZES, 0.5),
    "groundhog_search": ("groundhog_search", [*SIZES, "--output-rank", "3"], 0.5),
    "groundhog_encdec": ("groundhog_encdec", [*SIZES, "--output-rank", "3"], 0.5),
    "transformer": ("transformer", TRANSFORMER, 0.5),
    "lstm": ("lstm", LSTM, 0.5),
}


def write_models(folder: Path) -> None:
    """Write the dictionaries, a checkpoint of each of MODELS, and PAIRS as text that fairseq reads as raw data, too."""
    dictionaries = make_dictionary(SOURCE_WORDS), make_dictionary(TARGET_WORDS)
    for dictionary, language in zip(dictionaries, ("en", "fr")):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    for name, (arch, options, std) in MODELS.items():
        config = parse_training("--arch", arch, *options, "--task", "translation", "-s", "en", "-t", "fr")
        model = TranslationTask(config.task, *dictionaries).build_model(config.model)
        randomize(model, std)
        save_checkpoint(folder / f"{name}.pt", config, model)
    write_pairs(folder, PAIRS)


def write_pairs(folder: Path, pairs: list[Pair]) -> None:
    for side, language in enumerate(("en", "fr")):
        (folder / f"test.en-fr.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")


SOURCE = "Anna sees the zebra\n\nthe zebra sees the gnu\nthe gnu sleeps\n"
TARGET = "Anne voit le zèbre\nrien\nle zèbre voit le gnou\nle gnou dort\n"


def score_line(number: int, source: str, target: str, links: list[int]) -> str:
    """A line of scores, "zebra", "zèbre" and "gnou" unknown, whose j-th target word looks most at source word links[j].

    The row of end-of-sentence is ``links``' last.
    """
    sides = [
        [*("<unk>" if word in ("zebra", "zèbre", "gnou") else word for word in side.split()), "</s>"]
        for side in (source, target)
    ]
    alignment = [[0.6 if i == link else 0.4 / len(sides[0]) for i in range(len(sides[0]))] for link in links]
    words = {"source": sides[0], "target": sides[1]}
    return json.dumps({"id": number, **words, "logprob": -1.0, "alignment": alignment}) + "\n"
