"""A training that is broken ends as an unbroken one; signals end it after an update; its checkpoints are whole."""

import dataclasses
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import split
from typing import Any

import pytest
import torch

import rnnsearch_fairseq
from recipes.grammar import write_corpus
from recipes.trees import transitions
from rnnsearch_fairseq.corpus.plan import PAPER_MODEL, SMALL_MODEL
from tests.commands import PLUGIN, ROOT, preprocess, printed_by, run

pytestmark = [pytest.mark.slow, pytest.mark.train]

PARTS = {"train": 84, "valid": 9}
COMMON = [*PLUGIN, *split("--embedding-size 8 --hidden-size 8 --batch-size 8 --max-epoch 2 --cpu -s en -t fr")]
COMMON += split("--save-interval-updates 5 --log-format json --log-interval 1")
SIZES = ["--alignment-size", "8", "--maxout-size", "8"]
# What rnnsearch prepare prints for a million pairs and more, and for fewer.
PAPER = [*split(" ".join(PAPER_MODEL)), *SIZES, "--max-epoch", "2", "--pool-batches", "2", "--dropout", "0.1"]
CHOSEN = {"sharing": "share-decoder-input-output-embed", "dropout": 0.1, "warmup": 4, "updates": 22}
CHOSEN |= {"rate": 0.006, "word_dropout": 0.1}
SMALL = [*split(" ".join(SMALL_MODEL).format(**CHOSEN)), *SIZES]
# As the README's command for the second paper.
TREES = split("--task rnnsearch --arch tree2seq_small --tree-lang trees --sentence-avg --criterion blackout")
TREES += split("--blackout-samples 5 --optimizer sgd --lr 1.0 --lr-scheduler halve_on_worse")
# The second epoch can hardly be so much better than the first.
TREES += split("--clip-norm 3 --lr-threshold 0.9 --batch-size 16 --max-epoch 4")
# Only what a signal saves: of the second epoch's end, fairseq keeps nothing.
TREES += split("--save-interval-updates 100 --save-interval 3")
COMMANDS = {"paper": PAPER, "trees": TREES, "small": [*SMALL, "--bf16"]}
TOGETHER = split("--distributed-world-size 2 --distributed-no-spawn --distributed-backend gloo")
TOGETHER += split("--ddp-backend legacy_ddp")
WAIT = 500  # seconds, of a machine that may be busy with something else
# The values of an update in a log that do not depend on time.
EXACT = split("epoch loss nll_loss nll_sentence_nats nll_word_nats ppl wpb bsz num_updates lr gnorm clip")
TERM, INT = signal.SIGTERM, signal.SIGINT


@dataclasses.dataclass
class Trained:
    """What a training left: its folder, all that it printed, and its exit status."""

    folder: Path
    log: Path
    status: int | None = None

    @property
    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def last(self) -> Path:
        return self.folder / "checkpoint_last.pt"

    def updates(self) -> list[dict[str, Any]]:
        """The values of each update in the log."""
        records = re.findall(r"\| train_inner \| (\{.*\})$", self.printed, re.MULTILINE)
        return [{name: value for name, value in json.loads(record).items() if name in EXACT} for record in records]

    def sentence(self) -> str:
        """The sentence that it ended with."""
        assert self.status == 1 and "Traceback" not in self.printed, self.printed
        return self.printed.rstrip("\n").rpartition("\n")[2]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized sentence pairs with the trees of their sources; the last batches have 4 pairs and 1."""
    folder = tmp_path_factory.mktemp("broken")
    write_corpus(folder, PARTS, seed=5, longest=12)
    for part in PARTS:
        words = [f"{folder}/{part}.en", f"{folder}/{part}.penn", "--format", "penn"]
        printed_by(transitions.main, *words, "--output", f"{folder}/{part}.trees")
    for words in (["-s", "en", "-t", "fr"], ["--only-source", "-s", "trees"]):
        preprocess(folder, *words, "--trainpref", "train", "--validpref", "valid")
    return folder / "bin"


def start(data: Path, folder: Path, *words: str, **stop: Any) -> tuple[subprocess.Popen[bytes], Trained]:
    """Start a training, with its logs and a folder of checkpoints in ``folder``; ``stop`` is for `stopped.stop`."""
    folder.mkdir(exist_ok=True)
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    program = ["python", "-m", "tests.plugin.stopped", json.dumps(stop)] if stop else ["fairseq-train"]
    command = [*program, data, *COMMON, "--save-dir", folder / "saved", "--num-workers", "0", *words]
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)
    return process, Trained(folder / "saved", log)


def finish(process: subprocess.Popen[bytes], trained: Trained) -> Trained:
    """Wait for the end of a training, and note its status."""
    trained.status = process.wait(WAIT)
    return trained


def train(data: Path, folder: Path, *more: str, words: Sequence[str] = PAPER, **stop: Any) -> Trained:
    """Train to the end, or until ``stop``."""
    return finish(*start(data, folder, *words, *more, **stop))


def train_two(data: Path, folder: Path, *words: str, **stop: Any) -> list[Trained]:
    """Two processes that train together, as README.md says; ``stop`` is of the second."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"tcp://localhost:{free.getsockname()[1]}"
    first, second = ([*words, *TOGETHER, "--distributed-init-method", address, "--distributed-rank", r] for r in "01")
    trainings = start(data, folder, *first), start(data, folder, *second, **stop)
    return [finish(*training) for training in trainings]


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Parameters, the optimizer's state, the place in the data, and scores."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    names = ("train_iterator", "val_loss", "best", "RNNsearchTask")
    kept = {name: state["extra_state"].get(name) for name in names}
    del state["model"]["_extra_state"]
    return {"model": state["model"], "optimizer": state["last_optimizer_state"], **kept}


def assert_same(whole: Trained, *parts: Trained) -> None:
    """The updates that the parts of a training logged, and its end, are those of a whole one."""
    expected = {record["num_updates"]: record for record in whole.updates()}
    assert len(expected) >= 22
    seen = {}
    for part in parts:
        assert "other options" not in part.printed and "begins anew" not in part.printed
        for record in part.updates():
            assert record == expected[record["num_updates"]]
            seen[record["num_updates"]] = record
    assert seen == expected
    torch.testing.assert_close(read_state(parts[-1].last), read_state(whole.last), rtol=0, atol=0)


@pytest.fixture(scope="session")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """Two epochs of eleven updates, saved after every fifth, of one of COMMANDS; of tree models, four of six."""
    return functools.cache(lambda name: train(data, tmp_path_factory.mktemp(name), words=COMMANDS[name]))


# The same command goes on


def assert_stopped(stopped: Trained, updates: int, number: int) -> None:
    assert stopped.status == 128 + number, stopped.printed[-3000:]
    said = f"{signal.Signals(number).name}: training stops after update {updates}; the same command goes on from"
    assert f"{said} {stopped.last}" in stopped.printed
    assert stopped.updates()[-1]["num_updates"] == str(updates)
    assert "Traceback" not in stopped.printed


@pytest.mark.parametrize("name", COMMANDS)
def test_a_training_that_signals_stop_ends_as_an_unbroken_one(
    data: Path, unbroken: Callable[[str], Trained], tmp_path: Path, name: str
) -> None:
    """The last batch of an epoch has 4 pairs. Of the tree model, the signals are to all processes while workers read,
    one within an epoch, and one at the end of the second epoch, after which the learning rate falls."""
    whole, trees = unbroken(name), name == "trees"
    assert {record["bsz"] for record in whole.updates()} == {"4", "16" if trees else "8"}
    workers, parts = ["--num-workers", "2"] * trees, []
    for update, number in [(7, TERM), (12, INT)][: 1 + trees]:
        stop = {"update": update, "number": number, "everyone": trees}
        parts.append(train(data, tmp_path, *workers, words=COMMANDS[name], **stop))
        assert_stopped(parts[-1], update, number)
    end = train(data, tmp_path, *workers, words=COMMANDS[name])
    assert end.status == 0
    assert_same(whole, *parts, end)
    if name == "small":
        assert len(rnnsearch_fairseq.load(end.last).translate(["the baker lives here ."], max_len_b=5)) == 1
        again = train(data, tmp_path, "--max-update", "22", words=COMMANDS[name])
        assert (again.status, again.updates()) == (0, [])
        assert "nothing to do: 22 updates are done, and --max-update is 22" in again.printed
    if trees:
        rates = {record["num_updates"]: record["lr"] for record in whole.updates()}
        assert (rates["12"], rates["13"]) == ("1", "0.5")


def flip_a_bit(path: Path) -> None:
    """Change one bit of a matrix, in place."""
    with zipfile.ZipFile(path) as archive:
        record = max(archive.infolist(), key=lambda record: record.file_size)
    content = bytearray(path.read_bytes())
    content[record.header_offset + record.file_size // 2] ^= 0x40
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_another_can_be_given(
    data: Path, unbroken: Callable[[str], Trained], tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    last, older = saved / "checkpoint_last.pt", saved / "checkpoint_1_5.pt"
    for path in (last, older):
        path.write_bytes((unbroken("paper").folder / path.name).read_bytes())
    for damage in (flip_a_bit, Path.unlink):
        damage(last)
        sentence = train(data, tmp_path).sentence()
        assert str(last) in sentence and f"give --restore-file {older}" in sentence
    new = tmp_path / "new"
    missing = train(data, new, "--restore-file", str(saved / "other.pt")).sentence()
    assert f"{saved}/other.pt: no such file; give --restore-file {saved}" in missing
    assert "training cannot begin" in train(data, new, "--lr-scheduler", "tri_stage").sentence()
    assert f"{saved} is no file" in train(data, new, "--finetune-from-model", str(saved)).sentence()
    both = train(data, new, "--finetune-from-model", str(older), "--reset-optimizer").sentence()
    assert "training cannot begin (--finetune-from-model can not be set" in both
    resumed = train(data, tmp_path, "--restore-file", str(older))
    assert resumed.updates() == unbroken("paper").updates()[5:]


def test_another_experiment_does_not_go_on_in_silence(
    data: Path, unbroken: Callable[[str], Trained], tmp_path: Path
) -> None:
    shutil.copytree(unbroken("paper").folder, tmp_path / "saved")
    for option, named in {
        "--max-words 5": "other limits",
        "--criterion smoothed_nll": "Criterion",
        "--optimizer adam": "Optimizer",
        "--lr-scheduler halve_on_worse": "as with another --lr-scheduler",
    }.items():
        sentence = train(data, tmp_path, *option.split()).sentence()
        assert named in sentence and sentence.endswith("or --reset-optimizer") == (named in ("Criterion", "Optimizer"))
    others = split("--seed 9 --lr 0.5 --best-checkpoint-metric ppl --log-interval 2 --max-epoch 3")
    named = "--seed was 1 and is 9, --lr was [1.0] and is [0.5], --best-checkpoint-metric was loss and is ppl\n"
    assert f"training goes on from it with other options: {named}" in train(data, tmp_path, *others).printed


def test_what_a_validation_or_a_checkpoint_lacks_is_named(data: Path, tmp_path: Path) -> None:
    lacking = train(data, tmp_path, *split("--max-update 3 --best-checkpoint-metric bleu --no-save-optimizer-state"))
    assert "a validation has no bleu" in lacking.sentence()
    assert f"the training goes on from {lacking.last}" in lacking.sentence()
    resumed = train(data, tmp_path, "--max-update", "1")
    assert f"{lacking.last}: the optimizer begins anew" in resumed.printed


def test_hydra_trains_a_model_that_fairseq_can_go_on_with(data: Path, tmp_path: Path) -> None:
    words = ["--config-path", "pkg://rnnsearch_fairseq.plugin", "--config-name", "rnnsearch50"]
    words += [f"task.data={data}", "+task.source_lang=en", "+task.target_lang=fr", "optimization.max_update=2"]
    words += [f"model.{name}_size=8" for name in ("embedding", "hidden", "alignment", "maxout")]
    words += [f"checkpoint.save_dir={tmp_path}/saved", "dataset.batch_size=30", "common.cpu=true"]
    run("fairseq-hydra-train", *words, cwd=tmp_path)
    assert not {path.name for path in tmp_path.iterdir()} & {"outputs", "multirun"}, "Hydra stays in the folder"
    more = split("--max-words 50 --pool-batches 20 --dropout 0 --batch-size 30 --max-update 4")
    assert [record["num_updates"] for record in train(data, tmp_path, *more).updates()] == ["3", "4"]


# Checkpoints are whole


def test_a_training_that_is_killed_while_it_saves_goes_on_from_the_checkpoint_before(
    data: Path, unbroken: Callable[[str], Trained], tmp_path: Path
) -> None:
    killed = train(data, tmp_path, update=15, number=signal.SIGKILL, saving=True)
    assert killed.status == -signal.SIGKILL
    end = train(data, tmp_path)
    assert end.updates()[0]["num_updates"] == "12", "checkpoint1.pt was saved after update 11"
    assert_same(unbroken("paper"), killed, end)
    assert not list(end.folder.glob("*.tmp"))


def test_a_full_disk_is_named_and_keeps_no_half_of_a_checkpoint(data: Path, tmp_path: Path) -> None:
    full = train(data, tmp_path, update=5, number=0, saving=True)
    assert f"{full.folder}: a checkpoint cannot be written (No space left on device)" in full.sentence()
    assert [path.name for path in full.folder.iterdir()] == [".lock"]


def test_a_second_training_in_a_folder_is_refused(data: Path, tmp_path: Path) -> None:
    process, first = start(data, tmp_path, *PAPER, "--max-epoch", "1000")
    while not first.updates():
        time.sleep(0.1)
    assert "another training writes there" in train(data, tmp_path).sentence()
    process.terminate()
    assert finish(process, first).status == 128 + TERM


# Signals


def test_a_second_ctrl_c_ends_at_once(data: Path, tmp_path: Path) -> None:
    ended = train(data, tmp_path, update=3, number=INT, times=2)
    assert ended.status == -INT and not ended.last.exists()


def test_two_processes_stop_together_and_go_on(data: Path, tmp_path: Path) -> None:
    """Within an epoch of 6 updates; each process draws its own negative words again."""
    words = [*TREES, "--batch-size", "8"]
    whole = train_two(data, tmp_path / "whole", *words)
    stopped = train_two(data, tmp_path, *words, update=7, number=TERM)
    assert stopped[1].status == 128 + TERM
    assert_stopped(stopped[0], 7, TERM)
    resumed = train_two(data, tmp_path, *words)
    assert [training.status for training in (*whole, *resumed)] == [0, 0, 0, 0]
    assert_same(whole[0], stopped[0], resumed[0])


def test_two_processes_and_two_steps_train_as_one_batch(data: Path, tmp_path: Path) -> None:
    """Pools of two updates, and so of a part of the pairs; no dropout, which differs by batch."""
    words = [*PAPER, "--dropout", "0", "--max-update", "2", "--batch-size"]
    four, _ = train_two(data, tmp_path / "four", *words, "8", "--update-freq", "2")
    one = train(data, tmp_path / "one", words=[*words, "32"])
    assert len(one.updates()) == 2
    for record, expected in zip(four.updates(), one.updates(), strict=True):
        values, others = ({name: float(value) for name, value in r.items()} for r in (record, expected))
        assert values == pytest.approx(others, rel=1e-3)
    torch.testing.assert_close(read_state(four.last)["model"], read_state(one.last)["model"], rtol=1e-4, atol=1e-6)
