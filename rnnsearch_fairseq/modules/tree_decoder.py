"""The decoder of Eriguchi, Hashimoto and Tsuruoka (2016), Sections 2.2 and 3.2: attention to words and phrases."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.lstm import LSTM, open_gates, open_gates_backward
from rnnsearch_fairseq.modules.tree_encoder import Constituents
from rnnsearch_fairseq.modules.tree_lstm import TreeLSTM


class DecoderState(NamedTuple):
    """What passes from one target position to the next, ``(batch, d)`` each.

    ``hidden`` and ``memory`` are (s_j, c_j); ``fed`` is s~_j, None before the first position, where (s_1, c_1) stand
    and no word has been read.
    """

    hidden: Tensor
    memory: Tensor
    fed: Tensor | None


class TreeDecoder(nn.Module):
    """For each target position j::

        s_1, c_1 = Tree-LSTM(end-of-sentence, root), with its own parameters    (Section 3.2; (h_n, c_n) without trees)
        s_j, c_j = LSTM([y_{j-1}; s~_{j-1}]) from s_{j-1}, c_{j-1}, for j > 1   (input feeding)
        alpha_ji = exp(s_j · h_i) / sum_k exp(s_j · h_k), over words and phrases
        d_j      = sum_i alpha_ji h_i
        s~_j     = tanh(W_d [s_j; d_j] + b_d)
        p(y_j)   = softmax(W_s s~_j + b_s)

    The first word is predicted from s_1: no begin-of-sentence word is read.
    """

    def __init__(
        self, vocabulary_size: int, embedding_size: int, size: int, padding_idx: int, parses: bool = True
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=padding_idx)
        self.start = TreeLSTM(size) if parses else None
        self.lstm = LSTM(embedding_size, size)
        self.from_fed = nn.Linear(size, 4 * size, bias=False)
        self.from_state = nn.Linear(size, size)
        self.from_context = nn.Linear(size, size, bias=False)
        self.to_vocabulary = nn.Linear(size, vocabulary_size)

    def initial_state(self, source: Constituents) -> DecoderState:
        """(s_1, c_1)."""
        if self.start is None or source.root is None:
            return DecoderState(*source.end, None)
        return DecoderState(*self.start(source.end, source.root), None)

    def attend(self, hidden: Tensor, states: Tensor, padding_mask: Tensor) -> tuple[Tensor, Tensor]:
        """s~_j ``(batch, d)`` and alpha_j ``(batch, src_len + most_phrases)`` for s_j ``(batch, d)``."""
        scores = score_states(hidden, states).masked_fill(padding_mask, float("-inf"))
        # In half precision a softmax over many constituents loses its small weights: float32 at least.
        weights = torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        context = mix_states(weights, states)
        return torch.tanh(self.from_state(hidden) + self.from_context(context)), weights

    def step(
        self, previous_words: Tensor, state: DecoderState, source: Constituents
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """s~_j, whose ``to_vocabulary`` scores the next word; alpha_j; and the state to go on from.

        Args:
            previous_words: y_{j-1}, ``(batch,)``; what stands before the first word is not read.

        Returns:
            ``(batch, d)``, ``(batch, src_len + most_phrases)`` and the state.
        """
        hidden, memory, fed = state
        if fed is not None:
            projected = self.lstm.from_input(self.embedding(previous_words))
            hidden, memory = self.lstm(projected + self.from_fed(fed), hidden, memory)
        fed, alpha = self.attend(hidden, source.states, source.padding_mask)
        return fed, alpha, DecoderState(hidden, memory, fed)

    def scan(self, previous_words: Tensor, source: Constituents) -> tuple[Tensor, Tensor]:
        """s~ and alpha of every position, as :meth:`step` gives them one by one, but faster.

        Args:
            previous_words: y_{j-1}, ``(batch, tgt_len)``, as there.

        Returns:
            ``(batch, tgt_len, d)`` and ``(batch, tgt_len, src_len + most_phrases)``.
        """
        hidden, memory, _ = self.initial_state(source)
        return _Scan.apply(
            self.lstm.from_input(self.embedding(previous_words[:, 1:].T)),
            torch.cat([self.lstm.from_state.weight, self.from_fed.weight], dim=1),
            torch.cat([self.from_state.weight, self.from_context.weight], dim=1),
            self.from_state.bias,
            hidden,
            memory,
            source.states,
            source.padding_mask,
        )


def score_states(queries: Tensor, states: Tensor) -> Tensor:
    """The product of each query ``(batch, d)`` with each state ``(batch, n, d)``: ``(batch, n)``."""
    # In this order the product takes half the time of the states times a column.
    return torch.bmm(queries.unsqueeze(1), states.transpose(1, 2)).squeeze(1)


def mix_states(weights: Tensor, states: Tensor) -> Tensor:
    """The sum of the states ``(batch, n, d)`` by their weights ``(batch, n)``: ``(batch, d)``."""
    return torch.bmm(weights.to(states.dtype).unsqueeze(1), states).squeeze(1)


class _Scan(torch.autograd.Function):
    """All positions, with their gradient.

    Autograd would make a product for the gradient of each weight, and of the encoded source, at every position; here
    there is one for all positions.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        recurrent: Tensor,
        combining: Tensor,
        bias: Tensor,
        hidden: Tensor,
        memory: Tensor,
        states: Tensor,
        padding_mask: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Time first: ``projected`` ``(tgt_len - 1, batch, 4d)``, of the words before the second position and on.

        ``recurrent`` ``(4d, 2d)`` takes [s_{j-1}; s~_{j-1}], ``combining`` ``(d, 2d)`` [s_j; d_j].
        """
        steps, (batch, size) = len(projected) + 1, hidden.shape
        gates = projected.new_empty(steps - 1, batch, 4 * size)
        memories = projected.new_empty(steps, batch, size)
        seen = projected.new_empty(steps, batch, 2 * size)  # [s_j; d_j]
        recalled = projected.new_empty(steps, batch, 2 * size)  # [s_j; s~_j]
        # In half precision a softmax over many constituents loses its small weights: float32 at least.
        precise = torch.promote_types(projected.dtype, torch.float32)
        weights = projected.new_empty(steps, batch, states.size(1), dtype=precise)
        seen[0, :, :size], memories[0] = hidden, memory
        for j in range(steps):
            hidden, context = seen[j].split(size, dim=1)
            if j:
                torch.addmm(projected[j - 1], recalled[j - 1], recurrent.T, out=gates[j - 1])
                open_gates(gates[j - 1], memories[j - 1], hidden, memories[j])
            scores = score_states(hidden, states).masked_fill_(padding_mask, float("-inf"))
            weights[j] = torch.softmax(scores, dim=1, dtype=precise)
            context.copy_(mix_states(weights[j], states))
            recalled[j, :, :size] = hidden
            torch.tanh(torch.addmm(bias, seen[j], combining.T), out=recalled[j, :, size:])
        ctx.save_for_backward(recurrent, combining, states, gates, memories, seen, recalled, weights)
        return recalled[:, :, size:].transpose(0, 1).contiguous(), weights.transpose(0, 1).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_attended: Tensor, grad_weights: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, combining, states, gates, memories, seen, recalled, weights = ctx.saved_tensors
        size = memories.size(2)
        grad_gates = torch.empty_like(gates)
        grad_sums = torch.empty_like(memories)  # inside the tanh of s~
        grad_seen, grad_scores = torch.empty_like(seen), torch.empty_like(weights)
        to_recalled = torch.zeros_like(seen[0])
        to_memory = torch.zeros_like(memories[0])
        for j in reversed(range(len(memories))):
            grad_fed = grad_attended[:, j] + to_recalled[:, size:]
            torch.ops.aten.tanh_backward.grad_input(grad_fed, recalled[j, :, size:], grad_input=grad_sums[j])
            torch.mm(grad_sums[j], combining, out=grad_seen[j])
            to_hidden, to_context = grad_seen[j].chunk(2, dim=1)
            to_weights = grad_weights[:, j] + score_states(to_context, states)
            grad_scores[j] = weights[j] * (to_weights - (weights[j] * to_weights).sum(dim=1, keepdim=True))
            to_hidden = mix_states(grad_scores[j], states).add_(to_hidden).add_(to_recalled[:, :size])
            if j:
                to_memory = open_gates_backward(
                    gates[j - 1], memories[j - 1], memories[j], to_hidden, to_memory, grad_gates[j - 1]
                )
                to_recalled = grad_gates[j - 1] @ recurrent
        # alpha's part of a state's gradient, and that of its score.
        both = torch.cat([weights, grad_scores]).permute(1, 2, 0).to(states.dtype)
        grad_states = both @ torch.cat([grad_seen[:, :, size:], seen[:, :, :size]]).transpose(0, 1)
        return (
            grad_gates,
            grad_gates.flatten(0, 1).T @ recalled[:-1].flatten(0, 1),
            grad_sums.flatten(0, 1).T @ seen.flatten(0, 1),
            grad_sums.sum(dim=(0, 1)),
            to_hidden,
            to_memory,
            grad_states,
            None,
        )
