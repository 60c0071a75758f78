"""Training updates as CUDA graphs: one launch instead of hundreds for the forward and backward pass of a batch."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.optim.amp_optimizer import AMPOptimizer
from torch import Tensor, nn

from rnnsearch_fairseq.modules.fused import dispatch, graphs

logger = logging.getLogger(__name__)

MULTIPLE = 4  # lengths and numbers of sentences are rounded up to multiples of it
EAGER = 2  # batches of a shape that are computed kernel by kernel before the shape is captured
MOST = 100  # shapes that are captured
Result = tuple[Tensor, int, dict[str, Any]]  # of fairseq's train_step: the cost, the divisor, and the values to log
INPUTS = {"src_tokens", "src_lengths", "prev_output_tokens"}


class Captured(NamedTuple):
    """A graph: ``replay`` reads the words from ``inputs`` (see :func:`round_up`), and writes the cost into ``loss``."""

    inputs: list[Tensor]
    loss: Tensor
    replay: Callable[[], None]


class CapturedUpdates:
    """A task's ``train_step`` that replays the forward and backward pass of batches of a shape that came before.

    A batch is filled up with padding, so that its lengths and its number of sentences are multiples of 4: this changes
    cost and gradients by rounding alone. The third batch of a shape is captured, and all later ones are replayed. All
    graphs add to the same gradient of each parameter, which stays at its place in memory, and share one pool of memory.

    Whatever cannot be captured is computed by the task's own method, and one line of the log says why: several
    processes, the loss scale of ``--fp16`` (a number of the host), criterions without a method ``report``, a CPU.

    Args:
        train_step: the task's method.
        model: what it trains. Another model, such as a wrapper for several processes, is not captured.
        warm_up, capture: as in :mod:`~rnnsearch_fairseq.modules.fused.graphs`.
    """

    def __init__(
        self,
        train_step: Callable[..., Result],
        model: FairseqEncoderDecoderModel,
        warm_up: Callable[..., Any] = graphs.warm_up,
        capture: Callable[..., Any] = graphs.capture,
    ) -> None:
        self.train_step, self.model, self.warm_up, self.capture = train_step, model, warm_up, capture
        self.gave_up = False
        self.pool: Any = None
        self.forget()

    def forget(self, *owners: Any) -> None:
        """Drop all graphs; the next ones hold for ``owners``: the criterion, the optimizer, and the parameters."""
        self.owners = owners
        self.graphs: dict[tuple[int, ...], Captured] = {}
        self.seen: Counter[tuple[int, ...]] = Counter()
        self.gradients: dict[nn.Parameter, Tensor] = {}

    def __call__(
        self,
        sample: dict[str, Any],
        model: nn.Module,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
        **others: Any,
    ) -> Result:
        """As in fairseq."""
        arguments = (model, criterion, optimizer, update_num)
        obstacle = None if self.gave_up else self.obstacle(sample, *arguments[:3], others)
        if obstacle is not None:
            self.give_up(obstacle)
        if self.gave_up or ignore_grad:
            return self.train_step(sample, *arguments, ignore_grad, **others)
        places = [parameter.data_ptr() for parameter in model.parameters()]
        if self.owners != (criterion, optimizer, places):
            self.forget(criterion, optimizer, places)
        sizes = (*sample["net_input"]["src_tokens"].shape, sample["target"].size(1))
        shape = tuple(-(-size // MULTIPLE) * MULTIPLE for size in sizes)
        if shape in self.graphs:
            return self.replay(shape, sample, criterion, optimizer)
        self.seen[shape] += 1
        is_first = all(parameter.grad is None for parameter in model.parameters())  # of the batches of --update-freq
        if self.seen[shape] > EAGER and len(self.graphs) < MOST and is_first:
            return self.capture_shape(shape, sample, *arguments)
        return self.train_step(sample, *arguments)

    def obstacle(
        self, sample: dict[str, Any], model: nn.Module, criterion: Any, optimizer: Any, others: dict[str, Any]
    ) -> str | None:
        """Why updates cannot be captured; None if they can."""
        if not dispatch.on_gpu(sample["target"]):
            return "there is no GPU"
        if model is not self.model:
            return "several processes train the model"
        if getattr(optimizer, "scaler", None) is not None and not isinstance(optimizer, AMPOptimizer):
            return "--fp16 changes its loss scale; give --bf16 or --amp"
        if not hasattr(criterion, "report"):
            return "the criterion is not summed_nll"
        if others or sample["net_input"].keys() != INPUTS:
            return "the task gives the model more than words"
        return None

    def give_up(self, reason: object) -> None:
        """Compute all further updates kernel by kernel."""
        self.gave_up = True
        self.forget()
        logger.warning("--cuda-graphs has no effect: %s", str(reason).partition("\n")[0])

    def replay(self, shape: tuple[int, ...], sample: dict[str, Any], criterion: Any, optimizer: Any) -> Result:
        """Compute the batch by the graph of its shape."""
        graph = self.graphs[shape]
        for own, given in zip(graph.inputs, round_up(sample, shape, self.model)):
            own.copy_(given)
        self.hold_gradients()
        graph.replay()
        if hasattr(optimizer, "_needs_sync"):
            optimizer._needs_sync = True  # as its method backward does (optim/fp16_optimizer.py:107)
        return criterion.report(graph.loss.clone(), sample)

    def capture_shape(
        self, shape: tuple[int, ...], sample: dict[str, Any], model: nn.Module, criterion: Any, *arguments: Any
    ) -> Result:
        """Compute the batch kernel by kernel from inputs that stay at their place; then capture the same."""
        inputs = round_up(sample, shape, self.model)
        source, previous, target = inputs
        words = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": previous}
        rounded = {"net_input": words, "target": target, "ntokens": 0}

        def work() -> Tensor:
            return self.train_step(rounded, model, criterion, *arguments)[0].detach()

        self.hold_gradients()
        try:
            loss = self.warm_up(work)
        except Exception as error:  # whatever it is, the usual way works, or raises the same
            for parameter in model.parameters():
                parameter.grad = None
            self.give_up(error)
            return self.train_step(sample, model, criterion, *arguments)
        self.gradients = {parameter: parameter.grad for parameter in model.parameters() if parameter.grad is not None}
        try:
            if self.pool is None and loss.is_cuda:
                self.pool = torch.cuda.graph_pool_handle()
            self.graphs[shape] = Captured(inputs, *self.capture(work, self.pool))
        except Exception as error:  # this batch is done; the next ones do without graphs
            self.give_up(error)
        if len(self.graphs) == MOST:
            logger.info("%d shapes of batches are captured; all others are computed kernel by kernel", MOST)
        return criterion.report(loss, sample)

    def hold_gradients(self) -> None:
        """Make the parameters' gradients those that the graphs add to."""
        empty = [held for parameter, held in self.gradients.items() if parameter.grad is None]
        if empty:
            torch._foreach_zero_(empty)
        for parameter, held in self.gradients.items():
            if parameter.grad is not None and parameter.grad is not held:
                held.copy_(parameter.grad)
            parameter.grad = held


def round_up(sample: dict[str, Any], shape: tuple[int, ...], model: FairseqEncoderDecoderModel) -> list[Tensor]:
    """The source, the previous words and the target of a batch, filled up with padding.

    Sentences that are added have end-of-sentence as their source, to which all attention goes, and cost nothing.

    Args:
        shape: the number of sentences, the source length and the target length.
    """
    source, previous = (sample["net_input"][name] for name in ("src_tokens", "prev_output_tokens"))
    dictionary, sentences = model.encoder.dictionary, len(source)
    rows = shape[0] - sentences
    source = F.pad(source, (shape[1] - source.size(1), 0, 0, rows), value=dictionary.pad())
    source[sentences:, -1] = dictionary.eos()
    columns = shape[2] - previous.size(1)
    pad = model.decoder.dictionary.pad()
    return [source, *(F.pad(words, (0, columns, 0, rows), value=pad) for words in (previous, sample["target"]))]
