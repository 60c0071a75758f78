"""The workloads that are timed, and the timing, in turns."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.options import get_generation_parser
from fairseq.trainer import Trainer
from torch.utils.flop_counter import FlopCounterMode

from recipes.benchmark.setups import Setup, batch_size, configure, read_options

WARM_UP = 2  # batches before the timed ones
SIDE = 2048  # of the matrices that measure the machine's rate


@dataclass
class Timing:
    """The timing of one setup: ``count`` words or sentences a round, and the seconds of each round.

    ``operations`` is the number of operations of a round's matrix products, 0 if not counted; ``dtype`` is their
    precision.
    """

    name: str
    count: int
    operations: int = 0
    dtype: str = "float32"
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def per_second(self, seconds: list[float]) -> float:
        """The rate in the median round."""
        return self.count / statistics.median(seconds)


class Workload:
    """Work to be timed: ``work`` does a round, and ``timing`` collects the results."""

    timing: Timing

    def work(self) -> None:
        """Do the work of a round."""
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        """CPU time so far."""
        return time.process_time()

    def run(self) -> None:
        """Time one round."""
        wall, cpu = time.perf_counter(), self.cpu_seconds()
        self.work()
        finish()
        self.timing.wall.append(time.perf_counter() - wall)
        self.timing.cpu.append(self.cpu_seconds() - cpu)


def finish() -> None:
    """Wait until the device has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure(workloads: Sequence[Workload], rounds: int) -> None:
    """Time the workloads in turns."""
    for turn in range(rounds):
        first = turn % len(workloads)
        for workload in [*workloads[first:], *workloads[:first]]:
            workload.run()


class Updates(Workload):
    """A trainer's updates on the same batches, round after round."""

    def __init__(self, name: str, trainer: Trainer, batches: list[dict[str, Any]]) -> None:
        self.trainer, self.batches = trainer, batches
        self.timing = Timing(name, sum(batch["ntokens"] for batch in batches))
        for batch in batches[:WARM_UP]:
            trainer.train_step([batch])

    def work(self) -> None:
        """Make one update for each batch."""
        for batch in self.batches:
            self.trainer.train_step([batch])


class Training(Updates):
    """Updates of one setup's model on batches of its own.

    Args:
        lengths: source and target length, in words with end-of-sentence, of random sentences; None: batches of the
            data.
        vocabulary: number of entries in made-up dictionaries, if the options have no data folder.

    Raises:
        InputError: the data has fewer batches than ``updates``, or the options have no --batch-size for random ones.
    """

    def __init__(
        self,
        name: str,
        options: list[str],
        updates: int,
        lengths: tuple[int, int] | None = None,
        vocabulary: int | None = None,
    ) -> None:
        self.setup = Setup(name, configure(name, options, vocabulary), vocabulary)
        if lengths is None:
            batches = self.setup.data_batches(updates)
        else:
            batches = self.setup.random_batches(updates, lengths, batch_size(name, self.setup.config))
        super().__init__(name, self.setup.trainer, batches)
        self.timing.operations = count_operations(self.work)
        self.timing.dtype = self.setup.dtype


class Translation(Workload):
    """Translation of the first batches by one setup's models and search."""

    def __init__(self, name: str, options: list[str], batches: int) -> None:
        config = read_options(name, options, get_generation_parser(), "see fairseq-generate --help")
        self.task = tasks.setup_task(config.task)
        self.task.load_dataset(config.dataset.gen_subset)
        self.models, _ = checkpoint_utils.load_model_ensemble(
            utils.split_paths(config.common_eval.path), task=self.task
        )
        self.cuda = torch.cuda.is_available() and not config.common.cpu
        for model in self.models:
            if self.cuda:
                model.cuda()
            model.prepare_for_inference_(config)
        self.search = self.task.build_generator(self.models, config.generation)
        dataset = self.task.dataset(config.dataset.gen_subset)
        epoch = self.task.get_batch_iterator(
            dataset, max_tokens=config.dataset.max_tokens, max_sentences=config.dataset.batch_size
        ).next_epoch_itr(shuffle=False)
        self.batches = [batch for _, batch in zip(range(batches), epoch)]
        self.timing = Timing(name, sum(batch["nsentences"] for batch in self.batches))
        self.translate(self.batches[:WARM_UP])

    def translate(self, batches: Sequence[dict[str, Any]]) -> None:
        """Translate some batches."""
        for batch in batches:
            self.task.inference_step(self.search, self.models, utils.move_to_cuda(batch) if self.cuda else batch)

    def work(self) -> None:
        """Translate all batches."""
        self.translate(self.batches)


class Machine(Workload):
    """The product of two large square matrices, which measures the machine's rate."""

    def __init__(self, dtype: str) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.matrix = torch.randn(SIDE, SIDE, device=device).to(getattr(torch, dtype))
        self.timing = Timing("machine", 0, 2 * SIDE**3, dtype)
        self.work()

    def work(self) -> None:
        """Multiply once."""
        _ = self.matrix @ self.matrix


def count_operations(work: Callable[[], Any]) -> int:
    """Count the multiplications and additions in the matrix products of ``work``."""

    def in_place(summand: Sequence[int], first: Sequence[int], second: Sequence[int], **_: Any) -> int:
        return 2 * first[0] * first[1] * second[1]

    def packed(x: Sequence[int], _packed: Sequence[int], weight: Sequence[int], *_: Any, **__: Any) -> int:
        return 2 * x[0] * x[1] * weight[0]

    # torch counts addmm, but neither addmm_ nor the products of packed matrices.
    others = {torch.ops.aten.addmm_: in_place}
    if torch.backends.mkl.is_available():
        others[torch.ops.mkl._mkl_linear] = packed
    counter = FlopCounterMode(display=False, custom_mapping=others)
    with counter:
        work()
    return counter.get_total_flops()


def name_device() -> str:
    """Describe torch's version and device."""
    threads = torch.get_num_threads()
    on_cpu = f"CPU, {threads} thread" + "s" * (threads > 1)
    return f"torch {torch.__version__}, {torch.cuda.get_device_name() if torch.cuda.is_available() else on_cpu}"
