"""The loops of the tree-to-sequence model on one small batch, readable or fused."""

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import PAD, randomize
from tests.models.builders import SOURCES, TARGETS, TREES, make_batch


def tree_outputs(
    size: int, dtype: torch.dtype, fused: bool, device: str = "cpu"
) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """s~ and alpha of the same model for any ``fused``, and its parameters by name."""
    batch = make_batch(SOURCES, [[4, 5, 6, 7, 2]] * len(TARGETS), TREES)["net_input"]
    words, previous = (batch[name].to(device) for name in ("src_tokens", "prev_output_tokens"))
    forest = Forest(*(part.to(device) if isinstance(part, Tensor) else part for part in batch["trees"]))
    encoder, decoder = (FusedTreeEncoder, FusedTreeDecoder) if fused else (TreeEncoder, TreeDecoder)
    config = Tree2SeqConfig(embedding_size=5, hidden_size=size)
    model = torch.nn.ModuleList([encoder(config, 16), decoder(config, 16)])
    randomize(model, min(0.5, size**-0.5))
    model.to(device, dtype)
    source = model[0](words, words.eq(PAD), forest)
    return model[1].scan(previous, source), dict(model.named_parameters())
