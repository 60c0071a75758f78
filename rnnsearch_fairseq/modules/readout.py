"""The deep output with a single maxout layer (Pascanu et al., 2014; Goodfellow et al., 2013) of Appendix A.2.2."""

from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import RNNsearchConfig


class DeepOutput(nn.Module):
    """p(y_i | s, y_{i-1}, c_i) ∝ exp(y_i^T W_o t_i), with::

        t~_i = U_o s + V_o E y_{i-1} + C_o c_i + b_o
        t_i  = [max{t~_{i,2j-1}, t~_{i,2j}}] for j = 1 ... l

    where the decoder passes s_{i-1} (A.2.2) or s_i (Eq. 4) as s.

    Parameters: ``from_state`` is U_o ``(k·l, n)`` with its bias b_o, ``from_word`` V_o ``(k·l, m)``, ``from_context``
    C_o ``(k·l, 2n)``, ``to_vocabulary`` W_o ``(K_y, l)`` with the softmax's bias; k is the maxout pool size. With an
    ``output_rank``, as in the original code, W_o is the product of two matrices: ``factor`` ``(rank, l)``, then
    ``to_vocabulary`` ``(K_y, rank)``, without a nonlinearity between them.
    """

    def __init__(self, config: RNNsearchConfig, vocabulary_size: int) -> None:
        super().__init__()
        units, rank = config.maxout_pool * config.maxout_size, config.output_rank
        self.from_state = nn.Linear(config.hidden_size, units)
        self.from_word = nn.Linear(config.embedding_size, units, bias=False)
        self.from_context = nn.Linear(config.annotation_size, units, bias=False)
        self.pool_size = config.maxout_pool
        self.dropout = nn.Dropout(config.readout_dropout)
        self.factor = nn.Linear(config.maxout_size, rank, bias=False) if rank else None
        self.to_vocabulary = nn.Linear(rank or config.maxout_size, vocabulary_size)

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """t_i ``(..., l)``, or its product with ``factor`` ``(..., rank)``: the input of ``to_vocabulary``.

        s is ``(..., n)``, E y_{i-1} ``(..., m)`` and c_i ``(..., 2n)``. ``to_vocabulary`` gives W_o t_i plus its bias,
        the unnormalised log-probabilities ``(..., K_y)``.
        """
        units = self.from_state(state) + self.from_word(embedded) + self.from_context(context)
        hidden = self.dropout(units.unflatten(-1, (-1, self.pool_size)).amax(dim=-1))
        return hidden if self.factor is None else self.factor(hidden)
