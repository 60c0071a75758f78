"""Average the parameters of several checkpoints of one training, as fairseq's scripts/average_checkpoints.py does.

OUTPUT has the options of the last checkpoint, and no state of its optimizer. A training with --no-epoch-checkpoints
keeps its best and its last checkpoint only: leave that option out.

  python -m recipes.multi30k_en_fr.average checkpoints/checkpoint2.pt checkpoints/checkpoint3.pt --output average.pt
"""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import STATE, count_updates, read_checkpoint, write_checkpoint
from rnnsearch_fairseq.modules.parameters import shared_names


def average_checkpoints(paths: Sequence[Path], out: Path) -> None:
    """Write a checkpoint with the mean of all parameters of ``paths``; matrices that are shared stay shared.

    Means of float16 and bfloat16 are float32: rounding them again would lose a part of what averaging brings.
    """
    if os.path.lexists(out):
        raise InputError(f"{out}: is there already; give a new name")
    first: dict[str, str] = {}
    total: dict[str, Tensor] = {}
    for path in paths:
        state = read_checkpoint(path)
        model = {name: tensor for name, tensor in state["model"].items() if name != STATE}
        names = shared_names(model)
        if path != paths[0] and (names != first or any(model[name].shape != total[name].shape for name in total)):
            raise InputError(f"{path}: its parameters are not those of {paths[0]}; average checkpoints of one model")
        first = names
        # In float64, the mean of equal numbers is exact.
        total = {name: model[name].double() + total.get(name, 0) for name in dict.fromkeys(names.values())}
    for name in total:
        total[name] = (total[name] / len(paths)).to(torch.promote_types(model[name].dtype, torch.float32))
    state["model"].update({name: total[other] for name, other in first.items()})
    write_checkpoint(out, state["cfg"], state["model"], count_updates(state))


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("checkpoints", type=Path, nargs="+", help="checkpoint files")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="checkpoint to write; must be new")
    args = parser.parse_args()
    average_checkpoints(args.checkpoints, args.output)
    print(f"average of {len(args.checkpoints)} checkpoints -> {args.output}")
