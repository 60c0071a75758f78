"""The names, shapes and sharing of a network's parameters, for all that load them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rnnsearch_fairseq.errors import InputError, in_short


def shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For the name of each tensor, the first name of the same one: matrices can be shared."""
    first: dict[Any, str] = {}  # tensors on the meta device have no address
    return {name: first.setdefault((one.data_ptr() or id(one), one.shape), name) for name, one in tensors.items()}


def check_parameters(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str, cure: str) -> None:
    """Compare the names, shapes and kinds of loaded parameters with those of a network.

    Raises:
        InputError: they differ; the message begins with ``where`` and ends with ``cure``.
    """
    if found.keys() != expected.keys():
        name = min(found.keys() ^ expected.keys())
        holder = "it" if name in found else "this model"
        raise InputError(f"{where} is of another architecture ({in_short(name)} is in {holder} only); {cure}")
    for name, parameter in expected.items():
        if found[name].shape != parameter.shape or not found[name].is_floating_point():
            raise InputError(
                f"{where} is of other sizes: {name} is {tuple(found[name].shape)} there and {tuple(parameter.shape)} "
                f"here; {cure}"
            )
