"""Average the parameters of several checkpoints of one run.

``rnnsearch average OUT.pt IN.pt IN.pt ...``
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.checkpoints import load_checkpoint, no_such_checkpoint, write_checkpoint


def average_checkpoints(paths: Sequence[Path], out: Path) -> None:
    """Write the last checkpoint of ``paths`` to ``out``, with the mean of all their parameters.

    Means of float16 and bfloat16 are float32: rounding them again would lose a part of what averaging brings.

    Raises:
        InputError: there is no checkpoint, one is damaged, their parameters differ in name or shape, or ``out`` cannot
            be written.
    """
    write_checkpoint(_average(paths), out)


def _average(paths: Sequence[Path]) -> dict[str, Any]:
    if not paths:
        raise InputError("there is no checkpoint to average; name at least one")
    total: dict[str, torch.Tensor] = {}
    for path in paths:
        if not path.is_file():
            raise no_such_checkpoint(path)
        state = load_checkpoint(path)
        model = state["model"]
        if total and {name: p.shape for name, p in model.items()} != {name: p.shape for name, p in total.items()}:
            raise InputError(f"{path}: its parameters are not those of {paths[0]}; average checkpoints of one model")
        # In float64, the mean of equal numbers is exact.
        total = {name: parameter.double() + total.get(name, 0) for name, parameter in model.items()}
    state["model"] = {
        name: (total[name] / len(paths)).to(torch.promote_types(parameter.dtype, torch.float32))
        for name, parameter in model.items()
    }
    return state


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="checkpoint to write")
    parser.add_argument("checkpoints", type=Path, nargs="+", help="checkpoints to average")
    args = parser.parse_args()
    average_checkpoints(args.checkpoints, args.out)
    print(f"average of {len(args.checkpoints)} checkpoints -> {args.out}")
