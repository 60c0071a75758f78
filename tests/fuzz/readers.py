"""All readers of files, with their inputs and the ways to damage these."""

import contextlib
import copy
import functools
import io
import json
import pickle
import struct
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import torch._dynamo  # imported early: it creates PyTorch's cache folder
from fairseq import checkpoint_utils, tasks
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import IndexedDatasetBuilder, MMapIndexedDatasetBuilder
from fairseq.tasks.translation import TranslationTask

from recipes.aspec_en_ja import aspec
from recipes.reproduce import alignment_error, bahdanau_tables, generated, systems, token_scores
from recipes.reproduce.epochs import best_epoch, read_train_log
from recipes.wmt14_en_fr import selection
from rnnsearch_fairseq import grammar
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.pickles import read_plain_dict
from rnnsearch_fairseq.groundhog import convert
from rnnsearch_fairseq.groundhog.files import read_arrays, read_settings, read_words
from rnnsearch_fairseq.inference import unknown_words
from rnnsearch_fairseq.inference.average_checkpoints import average_checkpoints
from rnnsearch_fairseq.inference.loading import load_models
from rnnsearch_fairseq.inference.scoring import read_trees, score_pairs
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.patches.typed_lines import read_buffers
from rnnsearch_fairseq.plots import constituents as constituent_plot
from rnnsearch_fairseq.plots.train_log import read_curve
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.text import parses, prepare
from rnnsearch_fairseq.text.lines import check_parallel, check_text_file
from rnnsearch_fairseq.text.link_grammar import put_words
from tests.builders import make_dictionary, parse_training, randomize, save_checkpoint
from tests.data.builders import PIECES, check_tree
from tests.files.builders import OUTPUT, SETTINGS, numpy_scalar, python2, record
from tests.fuzz import mutations
from tests.fuzz.mutations import Mutation, damage
from tests.groundhog.builders import make_original
from tests.inference.builders import SIZES, SOURCE, TARGET, TRANSFORMER, score_line
from tests.plots.builders import SIMPLE
from tests.text.builders import FILES, parse

Files = dict[str, bytes]
READERS: dict[str, "Reader"] = {}
PAIRS = list(grammar.generate(12, seed=3))
LINES = [b"the cat sleeps .\n\xc3\xa9t\xc3\xa9 <unk>\n\n a  b\xe2\x80\xa8c\n", b"a\n"]


@dataclass(frozen=True)
class Reader:
    """A reader: its sets of files, the names of the files to damage, and mutations beside the general one."""

    read: Callable[[Path], None]
    seeds: Callable[[], Sequence[Files]]
    hostile: Sequence[str]
    mutations: Sequence[Mutation] = ()
    pieces: Sequence[bytes] = ()

    def damage(self, content: bytes, generator: Random) -> bytes:
        """``content``, damaged."""
        ways = [lambda content, generator: damage(content, generator, self.pieces), *self.mutations]
        return generator.choice(ways)(content, generator)


def reader(
    name: str,
    seeds: Callable[[], Sequence[Files]],
    hostile: Sequence[str],
    *mutations: Mutation,
    pieces: Sequence[Any] = (),
) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Register a reader of ``seeds``."""

    def as_bytes(piece: bytes | str) -> bytes:
        return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece

    def register(read: Callable[[Path], None]) -> Callable[[Path], None]:
        READERS[name] = Reader(read, functools.cache(seeds), hostile, mutations, [*map(as_bytes, pieces)])
        return read

    return register


def pick(path: Path) -> Path:
    """Find the existing file of a name with several possible endings."""
    return next(found for found in sorted(path.parent.glob(f"{path.name}.*")))


# Files of GroundHog


def pickles() -> list[Files]:
    python3 = pickle.dumps({"été": 1, "list": [1, (2, "x"), {"a": 2**70}], "n": np.float64(0.1)}, 4)
    contents = [python2(SETTINGS, protocol) for protocol in (0, 1, 2)] + [python3]
    contents.append(numpy_scalar(b"f8", b"<", struct.pack("<d", 1.5), 2))
    return [{"state.pkl": content} for content in contents] + [{"state.json": b'{"a": [1, 2.5, null], "b": "x"}'}]


CODE = mutations.CALLS + mutations.OPERATIONS


@reader("pickle", pickles, ["state.pkl", "state.json"], mutations.damage_pickle, mutations.damage_state, pieces=CODE)
def read_pickle(folder: Path) -> None:
    read_plain_dict(pick(folder / "state"))


@functools.cache
def originals() -> list[Files]:
    """The files of an original model; its state and vocabularies as JSON and as pickles."""
    found = []
    for encdec in (False, True):
        original = make_original(encdec)
        npz = io.BytesIO()
        np.savez(npz, **original.arrays)
        of_text = {"state": original.state, "source": original.source, "target": original.target}
        for write, ending in ((lambda value: json.dumps(value).encode(), "json"), (pickle.dumps, "pkl")):
            found.append(
                {f"{name}.{ending}": write(value) for name, value in of_text.items()} | {"model.npz": npz.getvalue()}
            )
    return found


def texts_of_originals() -> list[Files]:
    return [{name: content for name, content in files.items() if name != "model.npz"} for files in originals()]


@reader("GroundHog state", texts_of_originals, ["state.json", "state.pkl"], mutations.damage_state, pieces=CODE)
def read_state(folder: Path) -> None:
    read_settings(pick(folder / "state"))


@reader("GroundHog vocabulary", texts_of_originals, ["source.json", "source.pkl"], mutations.damage_state, pieces=CODE)
def read_vocabulary(folder: Path) -> None:
    convert.make_dictionary(read_words(pick(folder / "source"), read_settings(pick(folder / "state")).source))


@reader("GroundHog .npz", originals, ["model.npz"], mutations.damage_npz, mutations.damage_npz)
def read_npz(folder: Path) -> None:
    settings = read_settings(pick(folder / "state"))
    convert.make_parameters(read_arrays(folder / "model.npz", settings), settings)


# Checkpoints and data


@functools.cache
def trained(arch: str = "bahdanau_gru", *options: str) -> Files:
    """A small model and its dictionaries, one longer than the other."""
    folder = io.BytesIO()
    dictionaries = make_dictionary(20), make_dictionary(17)
    words = "--arch", arch, *(options or SIZES), "--task", "translation", "-s", "en", "-t", "fr"
    config = parse_training(*words)
    model = TranslationTask(config.task, *dictionaries).build_model(config.model)
    randomize(model)
    save_checkpoint(folder, config, model)  # type: ignore[arg-type]
    texts = []
    for dictionary in dictionaries:
        texts.append(io.StringIO())
        dictionary.save(texts[-1])
    return {"model.pt": folder.getvalue()} | {
        f"dict.{language}.txt": text.getvalue().encode() for language, text in zip(("en", "fr"), texts)
    }


def both() -> list[Files]:
    return [trained(), trained("transformer", *TRANSFORMER)]


@reader("checkpoint, to translate", both, ["model.pt"], *[mutations.damage_checkpoint] * 4)
def read_model(folder: Path) -> None:
    models, task = load_models([str(folder / "model.pt")], str(folder), cpu=True)
    try:
        next(score_pairs(models, task, [("w1 w2", "w3")]))
    except InputError as error:  # of the model's own limits; it names the pair
        raise InputError(f"model.pt: {error}") from None


@reader("checkpoint, to average", lambda: [trained()], ["model.pt"], *[mutations.damage_checkpoint] * 4)
def read_parameters(folder: Path) -> None:
    average_checkpoints([folder / "model.pt"] * 2, folder / "mean.pt")
    torch.load(folder / "mean.pt", weights_only=True)


@reader("checkpoint, to validate", both, ["model.pt"], *[mutations.damage_checkpoint] * 4)
def read_with_its_task(folder: Path) -> None:
    path = str(folder / "model.pt")
    _, cfg, task = checkpoint_utils.load_model_ensemble_and_task([path], {"data": str(folder)})
    try:
        task.build_criterion(cfg.criterion)
    except InputError:
        raise
    except Exception as error:  # of fairseq's, for options of another type
        raise InputError(f"model.pt: no criterion ({type(error).__name__})") from error


@reader("checkpoint, of options alone", lambda: [old_checkpoint()], ["model.pt"], *[mutations.damage_pickle_record] * 4)
def read_old(folder: Path) -> None:
    checkpoint_utils.load_checkpoint_to_cpu(str(folder / "model.pt"), {"data": "."})


@functools.cache
def old_checkpoint() -> Files:
    """A checkpoint as fairseq wrote it before it used Hydra."""
    options = parse_training("--arch", "lstm", "--optimizer", "adam", "--task", "translation")
    args = Namespace(**{**vars(options.model), "task": "translation", "data": ["x"]})
    out = io.BytesIO()
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 1}
    state = {"args": args, "model": {"a": torch.zeros(2)}, "optimizer_history": [history]}
    torch.save({**state, "extra_state": {"train_iterator": {"epoch": 1}}}, out)
    return {"model.pt": out.getvalue()}


@reader(
    "dictionary of fairseq",
    lambda: [{"dict.en.txt": b"a 5\nb 3\nc d 2\n<unk> 1 #fairseq:overwrite\n"}],
    ["dict.en.txt"],
)
def read_fairseq_dictionary(folder: Path) -> None:
    Dictionary.load(str(folder / "dict.en.txt"))
    bahdanau_tables.known_sentences(systems.TestSet(["a"], ["b"]), *[folder / "dict.en.txt"] * 2)


def binarized(builder: type) -> Callable[[], list[Files]]:
    def make() -> list[Files]:
        found = []
        for dtype, sentences in ((np.int32, [[5, 6, 2], [7, 2], [2]]), (np.int64, [[9, 9, 9, 9, 2]] * 4)):
            with tempfile.TemporaryDirectory() as folder:
                made = builder(f"{folder}/data.bin", dtype=dtype)
                for sentence in sentences:
                    made.add_item(torch.tensor(sentence))
                made.finalize(f"{folder}/data.idx")
                found.append({file.name: file.read_bytes() for file in Path(folder).iterdir()})
        return found

    return make


def read_all(folder: Path) -> None:
    loaded = data_utils.load_indexed_dataset(str(folder / "data"), make_dictionary(8))
    assert loaded is not None
    words = np.concatenate([loaded[number].numpy() for number in range(len(loaded))])
    assert sum(loaded.sizes) == len(words)
    assert 0 <= words.min() <= words.max() < 12


reader("binarized data (mmap)", binarized(MMapIndexedDatasetBuilder), ["data.idx", "data.bin"])(read_all)


@reader("binarized data (cached)", binarized(IndexedDatasetBuilder), ["data.idx", "data.bin"])
def read_cached(folder: Path) -> None:
    loaded = data_utils.load_indexed_dataset(str(folder / "data"), make_dictionary(8))
    assert loaded is not None
    loaded.prefetch(range(len(loaded)))
    assert all(0 <= int(loaded[number].min()) <= int(loaded[number].max()) < 12 for number in range(len(loaded)))


# Text


@reader("text", lambda: [{"a": lines, "b": lines} for lines in LINES], ["a"])
def read_text(folder: Path) -> None:
    check_parallel([folder / "a", folder / "b"])
    selection.count_vocabulary(folder / "a")
    with (folder / "a").open(encoding="utf-8", newline="\n") as lines:
        read = [line.rstrip("\n") for line in lines]
    assert len(read) == check_text_file(folder / "a")


@reader("typed lines", lambda: [{"a": lines} for lines in LINES], ["a"])
def read_typed(folder: Path) -> None:
    count = sum(map(len, read_buffers(str(folder / "a"), 3)))
    content = (folder / "a").read_bytes()
    assert count == content.count(b"\n") + (content[-1:] not in (b"\n", b"")), "each line is there"


@reader("text to score", lambda: [{"en": b"w1 w2\nw3\n", "fr": b"w2\nw1 w1\n"}] if loaded() else [], ["en", "fr"])
def read_scored(folder: Path) -> None:
    paths = folder / "en", folder / "fr"
    check_parallel(paths)
    with (
        paths[0].open(encoding="utf-8", newline="\n") as source,
        paths[1].open(encoding="utf-8", newline="\n") as target,
    ):
        pairs = [(first[:3000], second[:3000]) for first, second in zip(source, target, strict=True)][:5]
    assert all(np.isfinite(pair.logprob) for pair in score_pairs(*loaded(), pairs))


@functools.cache
def loaded() -> Any:
    """The small model and its task."""
    with tempfile.TemporaryDirectory() as folder:
        for name, file in trained().items():
            (Path(folder) / name).write_bytes(file)
        return load_models([f"{folder}/model.pt"], folder, cpu=True)


@reader(
    "text to prepare",
    lambda: [{f"{part}.{language}": LINES[0] for part in ("train", "valid", "test") for language in ("en", "fr")}],
    ["train.en"],
)
def read_to_prepare(folder: Path) -> None:
    splits = {part: part for part in ("train", "valid", "test")}
    with contextlib.redirect_stdout(io.StringIO()):
        prepare.prepare(folder, splits, ("en", "fr"), folder / "out", prepare.Settings(max_words=100, shuffle=1))


def aspec_files() -> list[Files]:
    return [{name.replace("/", "-"): "".join(f"{line}\n" for line in lines).encode() for name, lines in FILES.items()}]


@reader("ASPEC", aspec_files, ["train-train-1.txt"], pieces=["|||", " ||| "])
def read_aspec(folder: Path) -> None:
    list(aspec.read_aspec(folder / "train-train-1.txt", 5))


ENJU = [parse("He", "slept", after="."), parse("(", "why"), ""]
PARSED = {"text": b"He slept .\n( why\nNo .\n", "parses": "".join(f"{line}\n" for line in ENJU).encode()}


@reader("Enju's words", lambda: [PARSED], ["parses", "text"], pieces=PIECES["enju"])
def read_enju_words(folder: Path) -> None:
    aspec.write_words(folder / "text", folder / "parses", folder / "out")


# Trees


def parsed(form: str) -> list[Files]:
    if form == "enju":
        return [PARSED | {"text": b"He slept .\n-LRB- why\nNo .\n"}]
    sentences = "".join(f"{' '.join(pair.source)}\n" for pair in PAIRS)
    return [{"text": sentences.encode(), "parses": "".join(f"{pair.parse}\n" for pair in PAIRS).encode()}]


def read_parsed(form: str, folder: Path) -> None:
    for binarize in ("left", "right"):
        found = parses.read_trees(
            folder / "text", folder / "parses", form, parses.ParseCounts(), binarize=binarize, refuse=binarize == "left"
        )
        list(map(parses.format_transitions, found))
    # Every parse that is read must be a tree.
    for line in (folder / "parses").read_bytes().decode(errors="replace").split("\n")[:20]:
        check_tree(form, line, "right")


for FORM in ("penn", "enju"):
    reader(f"trees, {FORM}", functools.partial(parsed, FORM), ["parses", "text"], pieces=PIECES[FORM])(
        functools.partial(read_parsed, FORM)
    )

TRANSITIONS = {"tree": b"S S R\n-\nS S S R R\nS\n", "text": b"a b\n\na b c d\ne\n"}


@reader("trees, transitions", lambda: [TRANSITIONS], ["tree", "text"], pieces=["S ", "R ", "- ", "S S R ", "S " * 5000])
def read_transitions(folder: Path) -> None:
    check_parallel([folder / "tree", folder / "text"])
    for tree in read_trees(folder / "tree", folder / "text"):
        parses.format_transitions(tree)


@reader(
    "trees, of link-parser",
    lambda: [{"tree": b"(S (NP many animals.n) (VP sleep.v) .)\nmany animals sleep ."}],
    ["tree"],
    pieces=["(S ", ")", "many", ".n", "{sleep}"],
)
def read_linkage(folder: Path) -> None:
    tree, _, words = (folder / "tree").read_bytes().decode("utf-8", "replace").partition("\n")
    put_words(tree, words.split(), words.split())


# Scores, translations, logs


SCORES = [
    {
        "scores.jsonl": b"".join(
            json.dumps(record(n, **more)).encode() + b"\n"
            for n, more in enumerate(({}, {"phrases": [], "phrase_attention": [[], []]}))
        )
    }
]


@reader("scores", lambda: SCORES, ["scores.jsonl"], mutations.damage_json_lines, mutations.damage_json_lines)
def read_scores(folder: Path) -> None:
    for pair in constituent_plot.read_attention(folder / "scores.jsonl"):
        assert pair.alignment.shape[0] == pair.phrase_attention.shape[0] == len(pair.target)
    list(alignment_error.read_alignments(folder / "scores.jsonl"))


def learnt() -> list[Files]:
    links = [[0, 1, 2, 3, 4], [0, 0], [0, 1, 2, 3, 5, 5], [0, 1, 2, 3]]
    pairs = zip(SOURCE.splitlines(), TARGET.splitlines(), links)
    lines = [score_line(number, *pair) for number, pair in enumerate(pairs)]
    return [{"source": SOURCE.encode(), "target": TARGET.encode(), "scores.jsonl": "".join(lines).encode()}]


@reader("scores and their text", learnt, ["scores.jsonl", "source"], mutations.damage_json_lines)
def read_links(folder: Path) -> None:
    check_parallel([folder / "source", folder / "target"])
    counts = unknown_words.count_links([folder / "scores.jsonl"], folder / "source", folder / "target")
    unknown_words.write_dictionary(counts, folder / "dictionary")


@reader("dictionary of unknown words", lambda: [{"dictionary": b"a b 3\nc d\n"}], ["dictionary"])
def read_unknown(folder: Path) -> None:
    unknown_words.read_dictionary(folder / "dictionary")


@reader(
    "length statistics",
    lambda: [{"lengths": LengthStatistics.count([(1, 2), (1, 3), (4, 4)]).write().encode()}],
    ["lengths"],
)
def read_lengths(folder: Path) -> None:
    for smoothing in (0.0, 0.5):
        statistics = LengthStatistics.read(folder / "lengths", smoothing)
        assert all(statistics.log_prob(source, target) <= 0 for source in (1, 4, 9) for target in (0, 2, 99))


GENERATED = [
    {
        "generated": OUTPUT.replace("-12\t", "-0\t").replace("-3\t", "-1\t").encode(),
        "source": b"the ca@@ t\nhello\n",
    }
]


@reader(
    "translations",
    lambda: GENERATED,
    ["generated", "source"],
    pieces=["S-1\t", "H-0\t", "A-0\t", "T-5\t", "D-2\t-1\t", "0.5,0.5 "],
)
def read_generated(folder: Path) -> None:
    for pair in generated.read_generated(folder / "generated").values():
        try:
            word_alignment(pair)
        except InputError as error:  # names the sentence; commands add the file
            raise InputError(f"generated: {error}") from None
    generated.generated_in_order(folder / "generated")
    check_text_file(folder / "source")
    unknown_words.replace_all(folder / "generated", folder / "source", {"a": "b"}, unknown_words.ReplacementCounts())


@reader("systems' translations", lambda: [*GENERATED, {"generated": b"a b\nc\n", "source": b"a\nb\n"}], ["generated"])
def read_system(folder: Path) -> None:
    lines = systems.read_system(folder / "generated")
    systems.check_size(folder / "generated", lines, systems.read_test_set(folder / "source", folder / "source", []))
    token_scores.score_tokens(lines, lines)


NAMES = ("loss", "num_updates", "wps", "train_wall", "lr", "nll_sentence_nats")
JSON_LOG = json.dumps({"epoch": 1, **{f"train_{name}": str(number) for number, name in enumerate(NAMES, 1)}})
LOGS = [{"train.log": SIMPLE.encode()}, {"train.log": f"x | {JSON_LOG}\n".encode()}]


@reader(
    "training log",
    lambda: LOGS,
    ["train.log"],
    mutations.damage_json_lines,
    pieces=["epoch 001 | ", " | loss nan", " | lr 1", '{"epoch": ', "valid on 'x' subset | "],
)
def read_log(folder: Path) -> None:
    best_epoch(read_train_log(folder / "train.log"))
    read_curve(folder / "train.log")
    bahdanau_tables.table_2({"a": folder / "train.log"})


@reader(
    "gold alignments",
    lambda: [{"gold": b"0-0 1?1\n\n2S3\n", "more": b"\n0P1\n\n"}],
    ["gold", "more"],
    pieces=["1-1 ", "0?0 ", "9" * 4400 + "-1"],
)
def read_gold(folder: Path) -> None:
    alignment_error.read_gold(folder / "gold", folder / "more")


TREE_DATA = [
    ("train.en-fr.en", "en", ["w0 w1", "w2", "", "w1 <pad> w0 w0"]),
    ("train.en-fr.fr", "fr", ["w3", "w4 w1 w0", "", "w0"]),
    ("train.tree-None.tree", "tree", ["S S R", "S", "-", "S S S R R"]),
]


@functools.cache
def tree_data() -> list[Files]:
    """Binarized pairs with their trees, and the dictionaries."""
    dictionaries = {"en": make_dictionary(5), "fr": make_dictionary(5), "tree": Dictionary()}
    for symbol in ("S", "R", "-"):
        dictionaries["tree"].add_symbol(symbol)
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, language, lines in TREE_DATA:
            made = MMapIndexedDatasetBuilder(f"{folder}/{name}.bin", dtype=np.uint16)
            for line in lines:
                made.add_item(dictionaries[language].encode_line(line, add_if_not_exist=False))
            made.finalize(f"{folder}/{name}.idx")
            dictionaries[language].save(f"{folder}/dict.{language}.txt")
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return [files]


@functools.cache
def tree_options() -> Any:
    """The configuration of a training with trees."""
    return parse_training(
        "--arch", "tree2seq_small", "--task", "tree_translation", "-s", "en", "-t", "fr", "--cpu"
    ).task


@reader(
    "data of a tree task",
    tree_data,
    [f"{name}.{kind}" for name, _, _ in TREE_DATA for kind in ("idx", "bin")] + ["dict.tree.txt", "dict.en.txt"],
)
def read_tree_data(folder: Path) -> None:
    options = copy.deepcopy(tree_options())
    options.data = str(folder)
    task = tasks.setup_task(options)
    task.load_dataset("train")
    pairs = task.dataset("train")
    batch = pairs.collater([pairs[number] for number in pairs.ordered_indices()])
    forest = Forest(*batch["net_input"]["trees"])
    rows = batch["net_input"]["src_tokens"].numel() + len(forest.left)
    assert all(0 <= int(row) < rows for part in (forest.left, forest.right, forest.roots) for row in part)
