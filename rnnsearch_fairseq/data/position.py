"""Where a training stands in its data. The place is valid for the same pairs in the same batches only."""

import hashlib
import logging
from typing import Any

import numpy as np
from fairseq.data.iterators import EpochBatchIterator

from rnnsearch_fairseq.errors import InputError

logger = logging.getLogger(__name__)

SAMPLE = 1_000  # pairs whose words are compared; of all others, the lengths


class CheckedIterator(EpochBatchIterator):
    """fairseq's iterator; its state holds digests of the pairs and of the epoch's batches."""

    has_shards: bool  # whether the next epoch reads other pairs

    @property
    def first_batch(self) -> Any:
        """As in fairseq; an `InputError` if there is no batch."""
        if not self.frozen_batches:
            raise InputError("no sentence is left for training or validation: give a higher --max-tokens, or more data")
        return super().first_batch

    def state_dict(self) -> dict[str, Any]:
        """fairseq's state, and the digests."""
        return {**super().state_dict(), "digests": self._digests()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to the place of ``state_dict``; an `InputError` if it is within an epoch of other pairs or batches."""
        epoch, now = f"epoch {state_dict['epoch']}", self._digests()
        before = state_dict.get("digests", now)
        others = [name for name in now if before[name] != now[name]]
        if others and state_dict["iterations_in_epoch"] > 0:
            raise InputError(
                f"the checkpoint was saved within {epoch}, with other {' and '.join(others)}, so that pairs would be "
                "passed over or read twice: give the same data, batch size, --seed and number of processes as before, "
                "or --reset-dataloader, which begins at epoch 1"
            )
        if "pairs" in others and not self.has_shards:
            logger.warning(f"from {epoch} on, the training pairs are others than those of the checkpoint")
        super().load_state_dict(state_dict)

    def _digests(self) -> dict[str, str]:
        pairs: Any = self.dataset
        sample = [pairs[number] for number in range(0, len(pairs), len(pairs) // SAMPLE + 1)]
        words = [each[side] for each in sample for side in ("source", "target") if each[side] is not None]
        lengths = [len(batch) for batch in self.frozen_batches]
        batches = _digest([self.seed, self.num_shards], lengths, *self.frozen_batches)
        return {"pairs": _digest(pairs.sizes, *words), "batches": batches}


def _digest(*numbers: Any) -> str:
    sha256 = hashlib.sha256()
    for each in numbers:
        sha256.update(np.ascontiguousarray(each, dtype=np.int64))
    return sha256.hexdigest()
