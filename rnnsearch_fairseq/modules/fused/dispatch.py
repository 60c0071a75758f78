"""The choice between ``kernels`` (PyTorch) and ``triton_kernels`` (a GPU), which have the same functions."""

import functools
import logging
from types import ModuleType

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused import kernels

logger = logging.getLogger(__name__)


def on_gpu(tensor: Tensor) -> bool:
    """Whether the tensor is on a GPU, where each launch of a kernel and each wait for its result costs time."""
    return tensor.is_cuda


def kernels_for(tensor: Tensor) -> ModuleType:
    """The module of kernels for the tensor's device and precision."""
    return _gpu_kernels(tensor.device, tensor.dtype) if on_gpu(tensor) else kernels


def like(model: Tensor, *tensors: Tensor | None) -> list[Tensor | None]:
    """``tensors`` made contiguous, in the precision of ``model``: autocast lowers a layer's output, not its weights."""
    return [None if tensor is None else tensor.to(model.dtype).contiguous() for tensor in tensors]


@functools.cache
def _gpu_kernels(device: torch.device, dtype: torch.dtype) -> ModuleType:
    """The Triton kernels if they run on ``device``, else PyTorch's: Triton needs a C compiler and a recent GPU."""
    try:
        from rnnsearch_fairseq.modules.fused import triton_kernels

        with torch.cuda.device(device):
            triton_kernels.update_state(*torch.zeros(4, 1, 1, device=device, dtype=dtype))
    except Exception as error:  # Triton raises many types; none should end a training that can do without it
        logger.warning("Triton's kernels do not run on %s; PyTorch's slower ones are used instead: %s", device, error)
        return kernels
    return triton_kernels
