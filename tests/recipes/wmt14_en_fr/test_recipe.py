"""The recipe of the paper's own data: what it downloads, and how it trains."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LANGUAGES = ("en", "fr")


def write(prefix: Path, *sides: list[str]) -> tuple[Path, Path]:
    paths = tuple(prefix.with_name(f"{prefix.name}.{language}") for language in LANGUAGES)
    for path, lines in zip(paths, sides):
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return paths


def read(path: Path) -> list[str]:
    *lines, last = path.read_bytes().decode().split("\n")
    assert last == ""
    return lines


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is set up, with programs that only say how they were called; the data is made."""
    shutil.copytree(ROOT / "recipes/wmt14_en_fr", tmp_path / "recipes/wmt14_en_fr")
    setup = (ROOT / "recipes/setup.sh").read_text()
    (tmp_path / "recipes/setup.sh").write_text(f"{setup}\nset_up() {{ USER_DIR=plugin; }}\n")
    for name in ("fairseq-train", "fairseq-preprocess", "torchrun", "rnnsearch", "lmplz"):
        program(tmp_path / "bin" / name, f'echo {name} "$@" >> {tmp_path}/calls')
    (tmp_path / "runs/wmt14_en_fr/bin").mkdir(parents=True)
    (tmp_path / "runs/wmt14_en_fr/bin/.done").touch()
    (tmp_path / "runs/wmt14_en_fr/.made-by").write_text("wmt14_en_fr\n")
    return tmp_path


def script(checkout: Path, name: str, *options: str, status: int = 0, **environment: str) -> str:
    """What the script prints; the calls of programs, one a line, are in ``calls``."""
    (checkout / "calls").unlink(missing_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    path = os.pathsep.join([str(checkout / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", str(checkout / "recipes/wmt14_en_fr" / name), *options],
        cwd=checkout,
        env={**inherited, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def option(call: str, name: str) -> str:
    words = call.split()
    return words[words.index(name) + 1]


@pytest.mark.parametrize("gpus", [1, 4])
def test_all_gpus_together_get_batches_of_80_pairs(checkout: Path, gpus: int) -> None:
    script(checkout, "train.sh", "RNNsearch-30", str(gpus), "--interval", "7", "--", "--bf16")
    (call,) = read(checkout / "calls")
    torchrun = f"torchrun --standalone --nproc-per-node 4 {checkout}/bin/fairseq-train "
    assert call.startswith("fairseq-train " if gpus == 1 else torchrun)
    assert int(option(call, "--batch-size")) * gpus == 80
    assert "--pool-batches" not in call  # which counts updates, whatever the number of GPUs
    assert option(call, "--distributed-world-size") == str(gpus)
    assert option(call, "--max-update") == "471000" and option(call, "--max-words") == "30"
    assert option(call, "--arch") == "groundhog_search" and option(call, "--context") == "attention"
    assert option(call, "--save-interval-updates") == "7"
    assert call.endswith(" --bf16")


def job(checkout: Path, **environment: str) -> str:
    program(
        checkout / "bin/scontrol", f'if [ $1 = show ]; then printf "n7\\nn9\\n"; else echo "$@" > {checkout}/queued; fi'
    )
    environment = {"SLURM_JOB_ID": "20042", "SLURM_JOB_NODELIST": "n[7,9]", "SLURM_GPUS_ON_NODE": "2", **environment}
    return script(checkout, "slurm.sh", "RNNsearch-50", "--", "--fp16", SLURM_SUBMIT_DIR=str(checkout), **environment)


def test_machines_of_a_job_train_together(checkout: Path) -> None:
    program(checkout / "bin/srun", 'shift; for n in 1 0; do SLURM_NODEID=$n "$@" || exit; done')
    job(checkout)
    calls = read(checkout / "calls")
    for node, call in zip((1, 0), calls):
        together = f"--nnodes 2 --node-rank {node} --master-addr n7 --master-port 20042 --nproc-per-node 2"
        assert call.startswith(f"torchrun {together} {checkout}/bin/fairseq-train ")
        assert option(call, "--batch-size") == "20" and option(call, "--distributed-world-size") == "4"
        assert call.endswith(" --fp16")
    assert len(calls) == 2 and not (checkout / "queued").exists()


def test_a_job_whose_time_is_over_queues_itself_again(checkout: Path) -> None:
    program(
        checkout / "bin/srun",
        f"trap 'kill $!; echo stopped > {checkout}/calls; exit 1' TERM; kill -USR1 $PPID; sleep 30 > /dev/null & wait",
    )
    assert "another turn" in job(checkout)
    assert read(checkout / "calls") == ["stopped"]
    assert read(checkout / "queued") == ["requeue 20042"]


CORPORA = {
    "wmt13/training-parallel-europarl-v7.tgz": ["training/europarl-v7.fr-en.en", "training/europarl-v7.fr-en.fr"],
    "wmt14/training-parallel-nc-v9.tgz": [
        "training/news-commentary-v9.fr-en.en",
        "training/news-commentary-v9.fr-en.fr",
    ],
    "wmt13/training-parallel-commoncrawl.tgz": ["commoncrawl.fr-en.en", "commoncrawl.fr-en.fr"],
    "wmt13/training-parallel-un.tgz": ["un/undoc.2000.fr-en.en", "un/undoc.2000.fr-en.fr"],
    "wmt10/training-giga-fren.tar": ["giga-fren.release2.fixed.en.gz", "giga-fren.release2.fixed.fr.gz"],
    "wmt14/dev.tgz": [f"dev/newstest201{year}.{language}" for year in (2, 3) for language in LANGUAGES],
}


def write_archives(folder: Path) -> None:
    """The archives as they are on the web, with a line that names it in each file, and another language's file."""
    for name, files in CORPORA.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(folder / name, "w:gz" if name.endswith("tgz") else "w") as archive:
            for file in [*files, f"{files[0]}.de"]:
                text = f"{Path(file.removesuffix('.gz')).name}\n".encode()
                content = gzip.compress(text) if file.endswith(".gz") else text
                member = tarfile.TarInfo(file)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def test_what_is_missing_is_downloaded_and_unpacked(checkout: Path) -> None:
    write_archives(checkout / "web")
    program(
        checkout / "bin/curl",
        f'echo curl "${{@: -1}}" >> {checkout}/calls; output="${{@: -2:1}}"; url="${{@: -1}}"\n'
        f'cp {checkout}/web/${{url#https://www.statmt.org/}} "$output"',
    )
    given = checkout / "given"
    given.mkdir()
    for name in ("undoc.2000.fr-en", "europarl-v7.fr-en"):
        write(given / name, ["given"], ["given"])
    (given / "europarl-v7.fr-en.fr").unlink()
    program(checkout / "bin/sacrebleu", f'echo sacrebleu "$@" >> {checkout}/calls; echo "the &quot;R&amp;D&quot;"')
    # The programs after the downloads only say how they were called, so the first that needs a file's content fails.
    said = script(checkout, "data.sh", "--data", str(given), "--out", str(checkout / "new"), status=1)
    calls = read(checkout / "calls")
    downloaded = [call.removeprefix("curl https://www.statmt.org/") for call in calls if call.startswith("curl")]
    assert downloaded == [name for name in CORPORA if name != "wmt13/training-parallel-un.tgz"], said
    raw = checkout / "new/raw"
    for files in CORPORA.values():
        for file in files:
            name = Path(file.removesuffix(".gz")).name
            assert read(raw / name) == ["given" if name.startswith("undoc") else name]
    assert not list(raw.glob("*.de")) and not list((checkout / "new").glob("*.t*"))
    sides = [call for call in calls if call.startswith("sacrebleu")]
    assert sides == [f"sacrebleu --test-set wmt14/full --language-pair en-fr --echo {side}" for side in ("src", "ref")]
    for language in LANGUAGES:
        assert read(raw / f"newstest2014.{language}") == ['the "R&D"']
    script(checkout, "data.sh", "--data", str(given), "--out", str(checkout / "new"), status=1)
    assert not any(call.startswith(("curl", "sacrebleu")) for call in read(checkout / "calls")), "twice"
