"""A search computes what the network's own forward computes, with each option, and with modules of one's own."""

import itertools
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules import AlignmentModel, Decoder, DeepOutput, GatedHiddenUnit, average_annotations
from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.fused.forms import has_fused_form
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.rnnsearch import RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.modules.tree_lstm import Forest, TreeLSTM
from rnnsearch_fairseq.search import SearchModel, SearchOptions, make_search
from tests.builders import EOS, PAD, pad, randomize
from tests.plugin import builders as trees

FUSED = {RNNsearchConfig: (FusedEncoder, FusedDecoder), Tree2SeqConfig: (FusedTreeEncoder, FusedTreeDecoder)}
NETWORKS = {RNNsearchConfig: RNNsearch, Tree2SeqConfig: Tree2Seq}
WIDTH, VOCABULARY, LIMIT = 4, 12, 8
SAMPLE = trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)["net_input"]
FOREST = Forest(*SAMPLE["trees"])


def configurations() -> Iterator[Any]:
    """All choices of all options together, as far as they go together; all layers are equally wide."""
    for kind in NETWORKS:
        options = {field.name: field.metadata.get("choices", (False, True)) for field in fields(kind)}
        numbers = [field for field in fields(kind) if field.type in (int, float)]
        options |= {field.name: (field.default,) if field.type is float else (WIDTH,) for field in numbers}
        options |= {field.name: (0, WIDTH) for field in numbers if field.name == "output_rank"}
        for values in itertools.product(*options.values()):
            chosen = dict(zip(options, values))
            try:
                config = kind.from_values(chosen)
            except InputError:  # these values do not go together
                continue
            yield pytest.param(config, id=f"{kind.__name__}-" + "-".join(str(v) for v in values if v != WIDTH))


def draw(config: NetworkConfig) -> nn.Module:
    network = NETWORKS[type(config)](config, VOCABULARY + 4, VOCABULARY + 4).double().eval()
    randomize(network)
    with torch.no_grad():
        network.decoder.to_vocabulary.bias[EOS] += 2.0  # so that some translations end early
    return network


def forward(network: nn.Module, previous: Tensor) -> Tensor:
    """ln p of every next word, ``(batch, tgt_len, K_y)``, by the network's own forward."""
    return network(SAMPLE["src_tokens"], previous, FOREST)[0].log_softmax(dim=-1)


def check_search(network: nn.Module) -> None:
    """The search's ln p of its words are the network's, and a greedy search takes the network's best words."""
    model = SearchModel([(network.encoder, network.decoder)])
    for beam in (1, 3):
        found = make_search(SearchOptions(beam=beam, max_len_b=LIMIT)).search(model, SAMPLE["src_tokens"], FOREST)
        for rank in range(min(map(len, found))):
            hypotheses = [of_sentence[rank] for of_sentence in found]
            target = pad([hypothesis.words for hypothesis in hypotheses])
            log_probs = forward(network, pad([[EOS, *hypothesis.words[:-1]] for hypothesis in hypotheses]))
            scores = log_probs.gather(2, target.unsqueeze(2)).squeeze(2)
            for row, hypothesis in zip(scores, hypotheses):
                torch.testing.assert_close(hypothesis.logprobs, row[: len(hypothesis.words)], **trees.EXACT)
            if beam == 1:
                log_probs[..., PAD] = log_probs[:, 0, EOS] = -torch.inf
                best = log_probs.argmax(dim=2)
                for row, hypothesis in zip(best.tolist(), hypotheses):
                    words = hypothesis.words[:LIMIT]  # then the search must end
                    assert row[: len(words)] == words


@pytest.mark.parametrize("config", configurations())
@torch.no_grad()
def test_a_search_computes_what_the_network_computes(config: NetworkConfig) -> None:
    check_search(draw(config))


def attend_by_product(attention: AlignmentModel, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    return average_annotations(torch.bmm(attention.from_state(state).unsqueeze(1), memory.keys.mT), memory)


@pytest.mark.parametrize(
    ("kind", "place", "own"),  # the forward of one's own class, or for a decoder its step
    [
        (RNNsearchConfig, "decoder.attention", attend_by_product),
        (RNNsearchConfig, "decoder.unit", lambda *args: 0.5 * GatedHiddenUnit.forward(*args)),
        (RNNsearchConfig, "decoder.readout", lambda *args: DeepOutput.forward(*args).tanh()),
        (RNNsearchConfig, "decoder.readout.to_vocabulary", lambda *args: 2 * nn.Linear.forward(*args)),
        (RNNsearchConfig, "decoder.embedding", lambda *args: 2 * BiasedEmbedding.forward(*args)),
        (RNNsearchConfig, "encoder.backward_unit", lambda *args: 0.5 * GatedHiddenUnit.forward(*args)),
        (RNNsearchConfig, "decoder", lambda self, word, state, *args: Decoder.step(self, word, 0.5 * state, *args)),
        (Tree2SeqConfig, "encoder.lstm", lambda self, word, h, c: LSTM.forward(self, word, 0.5 * h, c)),
        (Tree2SeqConfig, "encoder.tree_lstm", lambda self, left, right: TreeLSTM.forward(self, right, left)),
        (Tree2SeqConfig, "decoder.lstm", lambda self, word, h, c: LSTM.forward(self, word, 0.5 * h, c)),
        (Tree2SeqConfig, "decoder.start", lambda self, left, right: TreeLSTM.forward(self, right, left)),
        (Tree2SeqConfig, "decoder.to_vocabulary", lambda *args: 2 * nn.Linear.forward(*args)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_module_of_ones_own_is_what_is_trained_and_searched(kind: type[NetworkConfig], place: str, own: Any) -> None:
    sizes = {field.name: WIDTH for field in fields(kind) if field.type is int and field.name != "output_rank"}
    results = []
    for scan in ("fused", "reference"):
        network = draw(kind.from_values({**sizes, "scan": scan}))
        for half, fused in zip((network.encoder, network.decoder), FUSED[kind], strict=True):
            assert has_fused_form(half, fused) == (scan == "fused"), "two equal forms would be compared"
        before = forward(network, SAMPLE["prev_output_tokens"])
        module = network.get_submodule(place)
        method = "step" if place == "decoder" else "forward"
        module.__class__ = type("Own", (type(module),), {method: own})
        log_probs = forward(network, SAMPLE["prev_output_tokens"])
        assert not torch.allclose(log_probs, before), "the module has no effect"
        loss = nn.functional.nll_loss(log_probs.flatten(0, 1), pad(trees.TARGETS).flatten(), ignore_index=PAD)
        options = {"allow_unused": True, "materialize_grads": True}
        results.append((loss, torch.autograd.grad(loss, [*network.parameters()], **options)))
        with torch.no_grad():
            check_search(network)
    torch.testing.assert_close(*results, **trees.EXACT)
