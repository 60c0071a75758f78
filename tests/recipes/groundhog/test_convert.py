"""Converted GroundHog models give the probabilities of the original, in fairseq's own commands, and go on training."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recipes.groundhog.__main__ import main
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import Member, load_members
from rnnsearch_fairseq.text.vocabulary import Vocabulary
from tests.builders import make_sample
from tests.commands import PLUGIN, printed_by, run
from tests.recipes.groundhog.builders import SYMBOLS, UNITS, WIDTH, Original, convert_recorded, make_original
from tests.recipes.reproduce.builders import write
from tests.reference import groundhog
from tests.reference.recorded import needs_recorded, recorded

README = Path(__file__).resolve().parents[3] / "recipes/groundhog/README.md"
PAIRS = [([1, 4, 12, 5, 3], [2, 3, 1, 10]), ([3], [4, 9, 4, 8, 7, 7, 10])]
PAIRS += [([2, 11, 3], [10]), ([6, 7, 8, 3], [5, 6, 0, 10])]


def load(out: Path) -> Member:
    (member,) = load_members(out / "checkpoint.pt")
    return member


def renumber(ids: list[int], original: Original, side: str, vocabulary: Vocabulary) -> list[int]:
    """fairseq's ids for the original's, by the words that they stand for."""
    words = getattr(original, side).items()
    numbers = {number: vocabulary.symbols.index(word) for word, number in words if word in vocabulary}
    numbers |= {0: 0, SYMBOLS[f"unk_sym_{side}"]: 3, SYMBOLS[f"null_sym_{side}"]: 2}
    return [numbers[number] for number in ids]


def check_scores(
    network: nn.Module, pairs: list[tuple[list[int], list[int]]], expected: list[tuple[Any, Any]], tolerance: float
) -> None:
    """Compare log p of each word, and the alignment, of fairseq's ids: all pairs in a batch, padded right or left, and
    each pair alone."""
    for first, batch, left in [(0, pairs, False), (0, pairs, True), *((k, [p], False) for k, p in enumerate(pairs))]:
        sample = make_sample([x for x, _ in batch], [y for _, y in batch], left)
        with torch.no_grad():
            scores, weights = network(sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"])
            log_probs = scores.log_softmax(-1).gather(-1, sample["target"].unsqueeze(-1)).squeeze(-1)
        longest = max(len(x) for x, _ in batch)
        for row, ((x, y), (words, alignment)) in enumerate(zip(batch, expected[first:])):
            start = longest - len(x) if left else 0
            np.testing.assert_allclose(log_probs[row, : len(y)], words, atol=tolerance)
            assert (weights is None) == (alignment is None)
            if weights is not None:
                found = weights[row, : len(y), start : start + len(x)]
                np.testing.assert_allclose(found, alignment, atol=min(tolerance, 1e-6))


# The original's own models and numbers


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The converted models, RNNsearch ("search") and RNNencdec ("encdec")."""
    return {kind: convert_recorded(kind, tmp_path_factory.mktemp(kind)) for kind in ("search", "encdec")}


@needs_recorded
@pytest.mark.parametrize(("kind", "scores"), [("search", "search_scores_50"), ("encdec", "encdec_scores_first25")])
def test_the_originals_scores_and_alignments(real: dict[str, Path], kind: str, scores: str) -> None:
    member = load(real[kind])
    pairs = []
    for pair in recorded("pairs_50.json"):
        sides = zip(member.text.vocabularies, ("src", "trg"))
        pairs.append(tuple(vocabulary.encode(pair[side].split()).tolist() for vocabulary, side in sides))
        # Words from 4 instead of 2, and end-of-sentence and unknown words before them.
        assert pairs[-1] == tuple([{5000: 2, 1: 3}.get(i, i + 2) for i in pair[side]] for side in ("x", "y"))
    records = [(record["word_logprobs"], record.get("alignment")) for record in recorded(f"{scores}.json")]
    check_scores(member.network, pairs[: len(records)], records, tolerance=1e-4)


# A tiny model, against the transcription of the original in float64


@pytest.mark.parametrize("encdec", [False, True])
def test_tiny_models_score_as_the_transcription_does(tmp_path: Path, encdec: bool) -> None:
    original = make_original(encdec)
    member = load(original.convert(tmp_path))
    source, target = member.text.vocabularies
    ids = [(renumber(x, original, "source", source), renumber(y, original, "target", target)) for x, y in PAIRS]
    expected = [groundhog.score(original.arrays, x, y) for x, y in PAIRS]
    check_scores(member.network.double(), ids, expected, tolerance=1e-9)


def test_words_spelt_like_symbols_stay_words(tmp_path: Path) -> None:
    original = make_original()
    names = {"<unk>": 1, "<pad>": 2, "</s>": 4, "<s>": 5, "UNK": 6}
    original.source = {f"s{number}": number for number in range(7, 12)} | names
    out = original.convert(tmp_path)
    ids = load(out).text.vocabularies[0].encode(["<unk>", "<pad>", "</s>", "<s>", "UNK", "new"]).tolist()
    assert ids == [4, 5, 6, 7, 8, 3, 2]
    assert Vocabulary.read(out / "dict.en.txt").encode(["<unk>", "UNK"]).tolist() == [4, 8, 2]


# The command


def test_the_command_names_the_dictionaries_by_their_languages(tmp_path: Path) -> None:
    printed_by(main, *make_original().save(tmp_path), tmp_path / "new folder/out", "-s", "de", "-t", "zh-cn")
    made = sorted(path.name for path in (tmp_path / "new folder/out").iterdir())
    assert made == ["checkpoint.pt", "dict.de.txt", "dict.zh-cn.txt"]


@pytest.mark.train
@pytest.mark.slow
def test_fairseq_scores_and_trains_by_the_commands_of_the_readme(tmp_path: Path) -> None:
    """The first update's cost, and that of --score-reference, are those of the transcription."""
    original = make_original()
    original.convert(tmp_path).rename(tmp_path / "converted")
    commands = re.findall(r"^(fairseq-\w+) (.*)", README.read_text().replace("\\\n", ""), re.MULTILINE)
    commands = {name: shlex.split(text.replace("rnnsearch_fairseq", PLUGIN[1])) for name, text in commands}
    (tmp_path / "text").mkdir()
    for language, side, vocabulary in (("en", 0, original.source), ("fr", 1, original.target)):
        spelt = {number: word for word, number in vocabulary.items()}
        lines = [" ".join(spelt[number] for number in pair[side][:-1] if number) for pair in PAIRS]
        for part in ("train", "valid"):
            write(tmp_path / f"text/{part}.{language}", lines)
    scored = [groundhog.score(original.arrays, x, [i for i in y if i])[0] for x, y in PAIRS]
    bits = -float(np.concatenate(scored).mean()) / np.log(2)

    run("fairseq-preprocess", *commands["fairseq-preprocess"], cwd=tmp_path)
    sizes = f"--embedding-size {WIDTH} --hidden-size {UNITS} --alignment-size {UNITS} --maxout-size {UNITS // 2}"
    once = f"{sizes} --output-rank {WIDTH} --cpu --num-workers 0 --log-format json --log-interval 1 --max-update 1"
    log = run("fairseq-train", *commands["fairseq-train"], *once.split(), cwd=tmp_path)
    (loss,) = re.findall(r'"train_loss": "([\d.]+)"', log.stdout + log.stderr)
    assert float(loss) == pytest.approx(bits, abs=2e-3)
    path = ["--path", "converted/checkpoint.pt", "--gen-subset", "valid", "--score-reference"]
    generated = run("fairseq-generate", "bin", *PLUGIN, *path, cwd=tmp_path).stdout
    words = [float(number) for line in re.findall(r"^P-\d+\t(.*)$", generated, re.MULTILINE) for number in line.split()]
    assert -sum(words) / len(words) == pytest.approx(bits, abs=1e-3)


# Bad input


def state(**settings: object) -> Callable[[Original], object]:
    return lambda original: original.state.update(settings)


def words(**numbers: int) -> Callable[[Original], object]:
    return lambda original: original.source.update(numbers)


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Original], object]:
    return lambda original: original.arrays.update({name: change(original.arrays[name])})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (state(dim=6.5), r"state\.json: dim "),
        (state(dec_rec_layer="RecurrentLayer"), r"state\.json: dec_rec_layer "),
        # A setting of one layer comes before that of all.
        (
            lambda original: original.state.update(rec_layer="LSTM") or original.state.pop("enc_rec_layer"),
            r"json: rec_layer ",
        ),
        (state(dropout=0.5), r"state\.json: dropout "),
        (state(backward=False), r"state\.json: backward "),
        (state(maxout_part=3), r"state\.json: unary_activ "),
        (state(c_dim=6), r"state\.json: c_dim "),
        (words(s5=13), r"vocab\.en\.json: "),
        (words(s5=6), r"vocab\.en\.json: "),
        (words(s5=0, **{"10\xa0000": 5}), r"vocab\.en\.json: "),
        (lambda original: original.arrays.pop("G_back_enc_transition_0"), "G_back_enc_transition_0"),
        (lambda original: original.arrays.update(extra=np.ones(1)), r"model\.npz: .*extra"),
        (array("W2_dec_deep_softmax", np.transpose), r"model\.npz: .*W2_dec_deep_softmax"),
        (array("A_dec_transition_0", lambda values: values[:, 1:]), r"model\.npz: .*A_dec_transition_0"),
        (array("b_0_dec_approx_embdr", lambda values: values * np.nan), r"model\.npz: .*b_0_dec_approx_embdr"),
        (array("W_enc_transition_0", lambda values: values.astype(object)), r"model\.npz: .*Object"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, change: Callable[[Original], object], named: str) -> None:
    original = make_original()
    change(original)
    with pytest.raises(InputError, match=named):
        original.convert(tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", range(4))
def test_files_that_cannot_be_read_are_named(tmp_path: Path, number: int) -> None:
    words = [*make_original().save(tmp_path), tmp_path / "out", "-s", "en", "-t", "fr"]
    for damage in (words[number].unlink, lambda: words[number].write_bytes(b"\x80\x02}q\x00.")):  # a pickle
        damage()
        with pytest.raises(InputError, match=re.escape(str(words[number]))):
            printed_by(main, *words)
