#!/usr/bin/env bash
#SBATCH --job-name=wmt14_en_fr
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=32G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# Run train.sh as a Slurm job on one or several machines, with the output of data.sh on a shared disk; submit it at the top
# of the checkout. Two minutes before its time limit, the job requeues itself, to continue from the last checkpoint.
#
#   sbatch [--nodes=N] [--gpus-per-node=N] [OPTIONS] recipes/wmt14_en_fr/slurm.sh MODEL [OPTIONS OF train.sh]
set -euo pipefail
recipes=$(dirname "${BASH_SOURCE[0]}")/..
[ -f "$recipes/setup.sh" ] || recipes=${SLURM_SUBMIT_DIR:-.}/recipes # Slurm runs a copy of this script from another folder
[ -f "$recipes/setup.sh" ] || { echo "error: $PWD has no $recipes/setup.sh; give sbatch at the top of the checkout" >&2; exit 1; }
source "$recipes/setup.sh"

[ $# -ge 1 ] || die "give a model: sbatch recipes/wmt14_en_fr/slurm.sh RNNsearch-50"
[ -n "${SLURM_JOB_ID-}" ] || die "this runs in a Slurm job: sbatch $0 $*"
cd "$SLURM_SUBMIT_DIR"
TRAIN=recipes/wmt14_en_fr/train.sh
[ -f "$TRAIN" ] || die "$PWD has no $TRAIN; give sbatch at the top of the checkout"
mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER=${HOSTS[0]}:$((20000 + SLURM_JOB_ID % 20000))

queue_again() {
    echo "the time is nearly over; training goes on in another turn"
    kill -TERM "$!" || true
    scontrol requeue "$SLURM_JOB_ID"
    wait "$!" || true
    exit
}
trap queue_again USR1 # before the training starts: without the trap, the signal would end this script
srun --kill-on-bad-exit=1 "$TRAIN" "$1" "${SLURM_GPUS_ON_NODE:-1}" --nodes "${#HOSTS[@]}" --master "$MASTER" "${@:2}" &
wait "$!"
