"""The fused loops of the tree-to-sequence model against single steps with autograd, in float64."""

import pytest
import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import Constituents, TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import randomize
from tests.plugin import builders as batches

EXACT = {"rtol": 0, "atol": 1e-12}
BATCH, SIZE, EMBEDDING, VOCABULARY = 3, 5, 4, 11


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def gradients(outputs: tuple[Tensor, ...], module: nn.Module, inputs: list[Tensor]) -> dict[str, Tensor]:
    """The gradients of a randomly weighted sum of ``outputs``, with respect to all parameters and ``inputs``."""
    generator = torch.Generator().manual_seed(5)
    cost = sum((out * torch.randn(out.shape, generator=generator, dtype=torch.float64)).sum() for out in outputs)
    names = [*(name for name, _ in module.named_parameters()), *(f"input {k}" for k in range(len(inputs)))]
    found = torch.autograd.grad(
        cost, [*module.parameters(), *inputs], allow_unused=True, materialize_grads=True, retain_graph=True
    )
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("lengths", [[4, 4, 4], [4, 1, 2], [1, 1, 1]])
def test_lstm_scan(lengths: list[int], left: bool) -> None:
    torch.manual_seed(1)
    encoder = FusedTreeEncoder(Tree2SeqConfig(embedding_size=EMBEDDING, hidden_size=SIZE), VOCABULARY).double()
    randomize(encoder)
    src_len = max(lengths)
    inputs = draw(BATCH, src_len, EMBEDDING)
    position = torch.arange(src_len)
    is_word = torch.stack([position >= src_len - n if left else position < n for n in lengths])
    scanned, expected = encoder.scan(inputs, ~is_word), TreeEncoder.scan(encoder, inputs, ~is_word)
    torch.testing.assert_close(scanned, expected, **EXACT)
    found = gradients(scanned, encoder.lstm, [inputs])
    torch.testing.assert_close(found, gradients(expected, encoder.lstm, [inputs]), **EXACT)


@pytest.mark.parametrize("on_gpu", [False, True], ids=["cpu", "order of work on a GPU"])
@pytest.mark.parametrize("parses", [True, False], ids=["tree", "sequence"])
@pytest.mark.parametrize("lengths", [[1, 1, 1], [2, 2, 2], [6, 6, 6], [2, 6, 4], [1, 2, 4], [3, 2, 1]], ids=str)
def test_decoder_scan(lengths: list[int], parses: bool, on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    monkeypatch.setattr(torch.Tensor, "is_cuda", on_gpu)
    config = Tree2SeqConfig(embedding_size=EMBEDDING, hidden_size=SIZE, constituents="phrases" if parses else "words")
    decoder = FusedTreeDecoder(config, VOCABULARY).double()
    randomize(decoder)
    states, end, root = draw(BATCH, 7, SIZE), *((draw(BATCH, SIZE), draw(BATCH, SIZE)) for _ in range(2))
    padding_mask = torch.tensor([[False] * 7, [True] * 2 + [False] * 5, [False] * 4 + [True] * 3])
    source = Constituents(states, padding_mask, end, root if parses else None)
    words = torch.randint(2, VOCABULARY, (BATCH, max(lengths)))
    is_word = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    words[~is_word] = 1
    inputs = [states, *end, *(root if parses else ())]
    scanned = decoder.scan(words, source)
    counted = torch.ones(BATCH, max(lengths), 1) if on_gpu else is_word.unsqueeze(2)
    stepped, alpha = (part * counted for part in TreeDecoder.scan(decoder, words, source))
    torch.testing.assert_close(scanned, (stepped, alpha), **EXACT)
    expected = gradients((stepped, alpha), decoder, inputs)
    torch.testing.assert_close(gradients(scanned, decoder, inputs), expected, **EXACT)
    expected = gradients((stepped,), decoder, inputs)  # as in training, where the cost does not depend on alpha
    torch.testing.assert_close(gradients(scanned[:1], decoder, inputs), expected, **EXACT)


def whole_outputs(dtype: torch.dtype, fused: bool) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """s~ and alpha of encoder and decoder, the same for any ``fused``, and their parameters by name."""
    batch = batches.make_batch(batches.SOURCES, [[4, 5, 6, 7, 2]] * len(batches.TARGETS), batches.TREES)["net_input"]
    encoder, decoder = (FusedTreeEncoder, FusedTreeDecoder) if fused else (TreeEncoder, TreeDecoder)
    config = Tree2SeqConfig(embedding_size=5, hidden_size=4)
    model = nn.ModuleList([encoder(config, 16), decoder(config, 16)])
    randomize(model)
    model.to(dtype)
    source = model[0](batch["src_tokens"], Forest(*batch["trees"]))
    return model[1].scan(batch["prev_output_tokens"], source), dict(model.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["autocast", "parameters in bfloat16"])
def test_scans_in_half_precision(dtype: torch.dtype) -> None:
    """As with fairseq's ``--amp``, whose parameters are in float32, and with ``--bf16``."""
    found = []
    for fused in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.float32):
            outputs, parameters = whole_outputs(dtype, fused)
        outputs[0].float().sum().backward()
        found.append((outputs, {name: parameter.grad for name, parameter in parameters.items()}))
    (outputs, gradients_found), (expected, reference) = found
    torch.testing.assert_close([out.float() for out in outputs], [out.float() for out in expected], rtol=0, atol=0.05)
    torch.testing.assert_close(gradients_found, reference, rtol=0.1, atol=0.1)
