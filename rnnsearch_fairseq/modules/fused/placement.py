"""The device, precision and memory layout of the tensors that the fused functions are given."""

from torch import Tensor


def on_gpu(tensor: Tensor) -> bool:
    """Whether the tensor is on a GPU, where each launch of a kernel and each wait for its result costs time."""
    return tensor.is_cuda


def like(model: Tensor, *tensors: Tensor | None) -> list[Tensor | None]:
    """``tensors`` made contiguous, in the precision of ``model``: autocast lowers a layer's output, not its weights."""
    return [None if tensor is None else tensor.to(model.dtype).contiguous() for tensor in tensors]
