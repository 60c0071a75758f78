"""The names, shapes and sharing of a network's parameters, for all that load them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rnnsearch_fairseq.errors import InputError, quote


def shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Map the name of each tensor to the first name of the same tensor: matrices can be shared."""
    first: dict[Any, str] = {}  # tensors on the meta device have no address
    return {
        name: first.setdefault((tensor.data_ptr() or id(tensor), tensor.shape), name)
        for name, tensor in tensors.items()
    }


def check_parameters(loaded: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise an InputError unless loaded parameters have the names and shapes of a network's, and are real numbers."""
    if loaded.keys() != expected.keys():
        name = min(loaded.keys() ^ expected.keys())
        where = "in its file, and not in this code" if name in loaded else "in this code, and not in its file"
        difference = f"{quote(name)} is {where}"
        raise InputError(f"it was trained with another architecture or with other code: {difference}")
    for name, parameter in expected.items():
        if loaded[name].shape != parameter.shape or not loaded[name].is_floating_point():
            sizes = f"{name} is {tuple(loaded[name].shape)} there and {tuple(parameter.shape)} here"
            raise InputError(f"it is of other sizes: {sizes}")
