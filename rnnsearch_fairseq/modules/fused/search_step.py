"""One position of a search: the decoder of :mod:`~rnnsearch_fairseq.modules.decoder` with the fewest products."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.modules.attention import AlignmentModel, Memory, average_annotations
from rnnsearch_fairseq.modules.decoder import Decoder, RecurrentState
from rnnsearch_fairseq.modules.fused.products import linear, packed_matmul


class SearchStep:
    """A decoder laid out for search.

    Matrices that multiply the same vector at every position are joined and packed once; all others remain those of the
    decoder. The matrices that multiply the context multiply the annotations instead, once for each sentence:
    C c_i = sum_j alpha_ij (C h_j). The alignment model's tanh(a) is 2 σ(2a) - 1, as in
    :func:`~rnnsearch_fairseq.modules.fused.kernels.align`, so that W_a, U_a h_j and v_a are doubled beforehand. When
    the decoder's parameters change, make a new step.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder) -> None:
        unit, readout = decoder.unit, decoder.readout
        self.decoder, self.size, self.pool = decoder, unit.hidden_size, readout.pool_size
        self.has_attention = isinstance(decoder.attention, AlignmentModel)
        # First the largest matrix: its temporary copy makes the peak of memory.
        self.times_vocabulary = packed_matmul(readout.to_vocabulary.weight.detach())
        state_weights = [unit.from_state.weight]
        if self.has_attention:
            state_weights.append(2 * decoder.attention.from_state.weight)
            self.energy = 2 * decoder.attention.energy.weight
        if decoder.reads_current_state:
            self.times_read_state = packed_matmul(readout.from_state.weight)
        else:
            state_weights.append(readout.from_state.weight)
        self.state_parts = [len(weight) for weight in state_weights]
        self.times_state = packed_matmul(torch.cat(state_weights))
        self.times_reset_state = packed_matmul(unit.from_reset_state.weight)
        self.bias = torch.cat([F.pad(unit.bias, (0, 2 * self.size)), readout.from_state.bias])
        self.times_word = packed_matmul(torch.cat([unit.from_input.weight, readout.from_word.weight]))

    def prepare_memory(self, memory: Memory) -> Memory:
        """The ``memory`` for :meth:`__call__`, with [C; C_z; C_r; C_o] h_j ``(3n + k l)`` for h_j and doubled keys."""
        rows = memory.annotations.flatten(0, -2)
        layers = self.decoder.unit.from_context, self.decoder.readout.from_context
        products = torch.cat([linear(rows, layer.weight) for layer in layers], dim=1)
        keys = 2 * memory.keys if self.has_attention else None
        return memory._replace(annotations=products.unflatten(0, memory.annotations.shape[:-1]), keys=keys)

    def __call__(
        self, words: Tensor, recurrent: RecurrentState, memory: Memory, sizes: Sequence[int]
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """The scores of every next word, the alignments, and the state for the next position.

        Args:
            words: y_{i-1}, ``(rows,)``; the rows of a sentence are adjacent.
            recurrent: the state after the previous position; at the beginning, ``RecurrentState(s_0)``.
            memory: from :meth:`prepare_memory`, with one row a sentence.
            sizes: the number of hypotheses of each sentence.

        Returns:
            Unnormalised log-probabilities ``(rows, K_y)``; alpha ``(rows, src_len)`` or None; and the state.
        """
        state, updates_first = recurrent.state, self.decoder.updates_with_current_word
        if updates_first and recurrent.context is None:  # no word is before the first
            from_word = F.pad(self.bias[3 * self.size :], (3 * self.size, 0)).expand(len(words), -1)
        else:
            from_word = self._project_words(words)
            if updates_first:
                state = self._update(from_word[:, : 3 * self.size] + recurrent.context, recurrent.gates, state)
        products = torch.split_with_sizes(self.times_state(state), self.state_parts, dim=1)
        width = max(sizes)  # Sentences with fewer hypotheses are filled up with zeros.
        if self.has_attention:
            queries = pad_sentences(products[1], sizes)  # (batch, width, n')
            aligned = (queries.unsqueeze(2) + memory.keys.unsqueeze(1)).sigmoid_()
            from_context, weights = average_annotations(F.linear(aligned, self.energy).squeeze(-1), memory)
        else:
            from_context, weights = memory.annotations.repeat_interleave(width, dim=0), None
        if len(words) < len(from_context):
            numbers = [number * width + place for number, size in enumerate(sizes) for place in range(size)]
            rows = torch.tensor(numbers, device=words.device)
            from_context = from_context.index_select(0, rows)
            weights = None if weights is None else weights.index_select(0, rows)
        for_unit, for_readout = (from_word + from_context).tensor_split((3 * self.size,), dim=1)
        if updates_first:
            after = RecurrentState(state, from_context[:, : 3 * self.size], products[0])
        else:
            after = RecurrentState(self._update(for_unit, products[0], state))
        if self.decoder.reads_current_state:
            units = self.times_read_state(after.state, for_readout)
        else:
            units = for_readout + products[-1]
        features, readout = units.unflatten(1, (-1, self.pool)).amax(dim=2), self.decoder.readout
        if readout.factor is not None:
            features = readout.factor(features)
        return self.times_vocabulary(features, readout.to_vocabulary.bias), weights, after

    def _project_words(self, words: Tensor) -> Tensor:
        """[W; W_z; W_r; V_o] E y with the biases b and b_o, ``(rows, 3n + k l)``."""
        if words.is_cuda:  # the host would wait for the different words
            return self.times_word(self.decoder.embedding(words), self.bias)
        words, places = words.unique(return_inverse=True)
        return self.times_word(self.decoder.embedding(words), self.bias).index_select(0, places)

    def _update(self, sums: Tensor, gates: Tensor, state: Tensor) -> Tensor:
        """s_i ``(rows, n)`` from s_{i-1}: its terms in the sums of z and r are ``gates``, all other terms ``sums``."""
        update, reset = (sums[:, self.size :] + gates).sigmoid_().chunk(2, dim=1)
        candidate = self.times_reset_state(reset * state, sums[:, : self.size]).tanh_()
        return torch.lerp(state, candidate, update)


def pad_sentences(rows: Tensor, sizes: Sequence[int], value: float = 0.0) -> Tensor:
    """The rows of each sentence, filled up with ``value``: ``(sentences, most rows, ...)`` from ``(rows, ...)``.

    ``sizes`` are the numbers of rows of the sentences.
    """
    if min(sizes) == max(sizes):
        return rows.unflatten(0, (len(sizes), -1))  # pad_sequence copies each sentence on its own
    return pad_sequence(rows.split(list(sizes)), batch_first=True, padding_value=value)
