"""The modules against the float64 NumPy transcription of the paper's equations, on random parameters and lengths."""

import numpy as np
import pytest
import torch

from tests.builders import modules_from, pad
from tests.reference import rnnsearch as reference

TOLERANCE = {"rtol": 0, "atol": 1e-10}
LENGTHS = [(7, 5), (1, 1), (4, 9), (12, 3)]  # source and target words of the sentences of one batch


@pytest.mark.parametrize("encdec", [False, True], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("pool", [1, 2, 3])
@pytest.mark.parametrize("readout_state", ["previous", "current"])
def test_encoder_and_decoder_follow_appendix_a(encdec: bool, left: bool, pool: int, readout_state: str) -> None:
    rng = np.random.default_rng(1)
    params = reference.random_parameters(rng, n=6, m=5, l=4, n_prime=7, pool=pool, K_x=21, K_y=18, encdec=encdec)
    sources = [rng.integers(2, 21, size=length).tolist() for length, _ in LENGTHS]
    targets = [rng.integers(2, 18, size=length).tolist() for _, length in LENGTHS]
    encoder, decoder = modules_from(params, pool, current=readout_state == "current")
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
