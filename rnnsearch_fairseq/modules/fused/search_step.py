"""One position of a search: the decoder of :mod:`~rnnsearch_fairseq.modules.decoder` in as few products as it has."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rnnsearch_fairseq.modules.attention import AlignmentModel, Memory, repeat_rows
from rnnsearch_fairseq.modules.decoder import Decoder

GROUP = 64  # words; the scores come in whole groups, filled up with words of probability zero


class Carried(NamedTuple):
    """What goes on from a position to the next, by row.

    ``state`` ``(rows, n)``; in the original code's order also ``gates``, [U_z; U_r] of it, ``(rows, 2n)``, and
    ``context``, [C; C_z; C_r] of the last c, ``(rows, 3n)``.
    """

    state: Tensor
    gates: Tensor | None = None
    context: Tensor | None = None

    def select(self, rows: Tensor) -> "Carried":
        """The rows ``rows``."""
        return Carried(*(None if tensor is None else tensor.index_select(0, rows) for tensor in self))


class SearchStep:
    """The parameters of a decoder, laid out for search.

    Matrices that multiply the same vector are one, transposed once. What depends on the previous word alone is looked
    up: [W; W_z; W_r] E y and V_o E y with their biases are made for all words, ``(K_y, 3n + k l)``.

    It does not follow the parameters when they change.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder) -> None:
        unit, readout, self.attention = decoder.unit, decoder.readout, decoder.attention
        self.has_attention = isinstance(self.attention, AlignmentModel)
        self.consumes_first = decoder.updates_with_current_word
        self.reads_current_state = decoder.reads_current_state
        self.maxout, self.factor = readout.maxout, readout.factor
        self.size = unit.hidden_size
        table = decoder.embedding.table.weight + decoder.embedding.bias
        self.words = torch.cat([unit.project_input(table), F.linear(table, readout.from_word.weight)], dim=1)
        self.words[:, 3 * self.size :] += readout.from_state.bias
        of_state = [unit.from_state.weight]
        if self.has_attention:
            of_state.append(self.attention.from_state.weight)
        if not self.reads_current_state:
            of_state.append(readout.from_state.weight)
        self.of_state_parts = [len(weight) for weight in of_state]
        self.of_state = torch.cat(of_state).T.contiguous()
        self.of_read_state = readout.from_state.weight.T.contiguous()
        self.of_reset_state = unit.from_reset_state.weight.T.contiguous()
        self.of_context = torch.cat([unit.from_context.weight, readout.from_context.weight]).T.contiguous()
        missing = -len(readout.to_vocabulary.weight) % GROUP
        self.to_vocabulary = F.pad(readout.to_vocabulary.weight.T, (0, missing)).contiguous()
        self.bias = F.pad(readout.to_vocabulary.bias, (0, missing), value=float("-inf"))
        self.no_word = F.pad(readout.from_state.bias, (3 * self.size, 0))

    def prepare_memory(self, memory: Memory) -> Memory:
        """``memory`` as :meth:`__call__` reads it. RNNencdec's only context is multiplied here, once a sentence."""
        return memory if self.has_attention else memory._replace(annotations=memory.annotations @ self.of_context)

    def __call__(self, words: Tensor, carried: Carried, memory: Memory) -> tuple[Tensor, Tensor | None, Carried]:
        """Scores of every next word, alignments, and what goes on.

        Args:
            words: y_{i-1}, ``(rows,)``.
            carried: at the beginning only ``state``, s_0.
            memory: of :meth:`prepare_memory`; its sentences share the rows equally, those of a sentence side by side.

        Returns:
            Unnormalised log-probabilities ``(rows, K_y and up to a whole group)``; alpha ``(rows, src_len)`` or None.
        """
        state, known = carried.state, self.words.index_select(0, words)
        if self.consumes_first:
            if carried.context is None:
                known = self.no_word.expand_as(known)
            else:
                state = self._update(known[:, : 3 * self.size] + carried.context, carried.gates, state)
        products = (state @ self.of_state).split(self.of_state_parts, dim=1)
        if self.has_attention:
            context, weights = self.attention.attend(products[1], memory)
            of_context = context @ self.of_context
        else:
            of_context, weights = repeat_rows(memory.annotations, len(words)), None
        for_unit, for_readout = (known + of_context).tensor_split([3 * self.size], dim=1)
        if self.consumes_first:
            after = Carried(state, products[0], of_context[:, : 3 * self.size])
        else:
            after = Carried(self._update(for_unit, products[0], state))
        read = after.state @ self.of_read_state if self.reads_current_state else products[-1]
        features = self.maxout(for_readout + read)
        if self.factor is not None:
            features = self.factor(features)
        return torch.addmm(self.bias, features, self.to_vocabulary), weights, after

    def _update(self, sums: Tensor, gates: Tensor, state: Tensor) -> Tensor:
        """s_i of the sums in s~, z and r, ``(rows, 3n)``, but for those of s_{i-1}: ``gates`` has those in z and r."""
        for_candidate, for_gates = sums.tensor_split([self.size], dim=1)
        update, reset = (for_gates + gates).sigmoid_().chunk(2, dim=1)
        candidate = torch.addmm(for_candidate, reset * state, self.of_reset_state).tanh_()
        return torch.lerp(state, candidate, update)
