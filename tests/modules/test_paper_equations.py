"""The modules against the float64 NumPy transcription of the paper's equations, on random parameters and lengths."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.builders import make_model, pad
from tests.reference import rnnsearch as reference

TOLERANCE = {"rtol": 0, "atol": 1e-10}
LENGTHS = [(7, 5), (1, 1), (4, 9), (12, 3)]  # source and target words of the sentences of one batch
# The paper's symbols for the parts of each parameter.
UNITS = {"encoder.forward_unit": "_f", "encoder.backward_unit": "_b", "decoder.unit": ""}
SYMBOLS = {f"{unit}.from_input.weight": f"W{end} W_z{end} W_r{end}" for unit, end in UNITS.items()}
SYMBOLS |= {f"{unit}.from_state.weight": f"U_z{end} U_r{end}" for unit, end in UNITS.items()}
SYMBOLS |= {f"{unit}.from_reset_state.weight": f"U{end}" for unit, end in UNITS.items()}
SYMBOLS |= {f"{unit}.bias": f"b{end}" for unit, end in UNITS.items()}
SYMBOLS |= {"encoder.embedding.table.weight": "E_x", "encoder.embedding.bias": "b_Ex"}
SYMBOLS |= {"decoder.embedding.table.weight": "E_y", "decoder.embedding.bias": "b_Ey"}
SYMBOLS |= {"decoder.from_summary.weight": "W_s", "decoder.from_summary.bias": "b_s"}
SYMBOLS |= {"decoder.unit.from_context.weight": "C C_z C_r", "decoder.attention.energy.weight": "v_a"}
SYMBOLS |= {"decoder.attention.from_state.weight": "W_a", "decoder.attention.from_annotation.weight": "U_a"}
SYMBOLS |= {"decoder.readout.from_state.weight": "U_o", "decoder.readout.from_state.bias": "b_o"}
SYMBOLS |= {"decoder.readout.from_word.weight": "V_o", "decoder.readout.from_context.weight": "C_o"}
SYMBOLS |= {"decoder.readout.to_vocabulary.weight": "W_o", "decoder.readout.to_vocabulary.bias": "b_y"}


def in_the_papers_symbols(model: nn.Module) -> dict[str, np.ndarray]:
    """The parameters of a model as ``tests/reference/rnnsearch.py`` reads them."""
    params = {}
    for name, parameter in model.named_parameters():
        symbols = SYMBOLS[name.replace("network.", "")].split()
        params |= zip(symbols, np.split(parameter.detach().numpy(), len(symbols)))
    params |= {symbol: params[symbol].T for symbol in ("E_x", "E_y")}
    return params | ({"v_a": params["v_a"][0]} if "v_a" in params else {})


@pytest.mark.parametrize("encdec", [False, True], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("pool", [1, 2, 3])
@pytest.mark.parametrize("readout_state", ["previous", "current"])
def test_encoder_and_decoder_follow_appendix_a(encdec: bool, left: bool, pool: int, readout_state: str) -> None:
    rng = np.random.default_rng(1)
    sources = [rng.integers(2, 21, size=length).tolist() for length, _ in LENGTHS]
    targets = [rng.integers(2, 18, size=length).tolist() for _, length in LENGTHS]
    options = {"maxout_pool": pool, "readout_state": readout_state, "scan": "reference"}
    model = make_model("rnnencdec" if encdec else "bahdanau_gru", **options)
    encoder, decoder, params = model.encoder.network, model.decoder.network, in_the_papers_symbols(model)
    words = pad(sources, left)
    features, alpha, _ = decoder(pad(targets), *decoder.begin(encoder(words)))
    log_probs = torch.log_softmax(decoder.readout.to_vocabulary(features), dim=-1).detach()
    for row, (source, target) in enumerate(zip(sources, targets)):
        expected = reference.decode(params, source, target, readout_state=readout_state, pool=pool)
        np.testing.assert_allclose(log_probs[row, : len(target)], expected[0], **TOLERANCE)
        if encdec:
            assert alpha is None
        else:
            weights = alpha[row, : len(target)].detach()
            np.testing.assert_allclose(weights[:, words[row] != 1], expected[1], **TOLERANCE)
            assert weights[:, words[row] == 1].eq(0).all()
