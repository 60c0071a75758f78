"""Programs that start at once: a process that has imported PyTorch, and one that has fairseq, fork for each command.

`start` puts a folder of programs on PATH: commands of fairseq and of this package, sacrebleu, and a python for scripts
and for modules of the package, the recipes and the tests. Each program is a client. It sends its words, folder,
environment and standard streams to one of the two processes, the zygotes. The zygote forks a supervisor for the client,
and the supervisor forks the command. The client's signals go to the command, and the client ends as the command does.
A client that is killed takes the command with it. When pytest ends or is killed, the zygotes and all commands end.
"""

import marshal
import os
import signal
import socket
import sys

PROGRAMS = [f"fairseq-{name}" for name in ("preprocess", "train", "generate", "interactive", "hydra-train")]
PROGRAMS += ["rnnsearch", "sacrebleu", "python", "python3"]
# What each zygote imports before its first command, nothing of this checkout. fairseq_cli.train sets up logging first.
ZYGOTES = {
    "plain": "torch sacrebleu.sacrebleu lxml.etree matplotlib.pyplot safetensors.torch scipy.sparse.csgraph fastapi",
    "fairseq": "fairseq_cli.train torch._dynamo fairseq.sequence_generator matplotlib.pyplot",
}
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLIENT = """#!/bin/sh
case "${{0##*/}} $1 $2" in
    fairseq-* | python*" -m fairseq_cli."* | python*" "*.py" "*) zygote=fairseq ;;
    python*" -m pytest"* | python*" -m tests."*) zygote=fairseq ;;
    rnnsearch* | sacrebleu* | python*" -m rnnsearch_fairseq"* | python*" -m recipes."*) zygote=plain ;;
    *) exec {python} "$@" ;;
esac
exec {python} -S -I {file} call {folder}/$zygote "$0" "$@"
"""
_started = []  # the zygotes of this process


def start() -> None:
    """Start the zygotes, and put the folder of programs on PATH."""
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix="zygote-")
    for name, modules in ZYGOTES.items():
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/{name}")
            listener.listen()
            words = [sys.executable, "-I", __file__, "serve", folder, str(listener.fileno()), *modules.split()]
            # Standard input ends when this process does. Its commands' streams are taken for pipes, as these are.
            options = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"start_new_session": True}
            options |= {"env": {**os.environ, "OMP_NUM_THREADS": "1"}, "pass_fds": [listener.fileno()]}
            _started.append(subprocess.Popen(words, **options))
    for name in PROGRAMS:
        with open(f"{folder}/{name}", "x", opener=lambda path, flags: os.open(path, flags, 0o755)) as program:
            program.write(CLIENT.format(python=sys.executable, file=__file__, folder=folder))
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def stop() -> None:
    """End the zygotes, if this process has started them, with all that they run."""
    for process in _started:
        sys.stderr.write(process.communicate()[1].decode())


def call(zygote: str, *words: str) -> None:
    """Run a command as a client, and end this process as the command ends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(zygote)
    request = marshal.dumps((words, os.getcwd(), dict(os.environ)))
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(request)
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: connection.send(bytes([number])))
    end_with(marshal.loads(connection.recv(100)))


def serve(folder: str, number: str, *modules: str) -> list[str]:
    """Fork for each client; return the words of a command in the process that is to run it."""
    import gc
    import importlib
    import select
    import shutil

    alive, listener = os.dup(0), socket.socket(fileno=int(number))
    running = 0
    while alive not in select.select([alive, listener], [], [])[0]:
        for module in modules:
            importlib.import_module(module)
        gc.freeze()
        connection, _ = listener.accept()
        if os.fork() == 0:
            return supervise(connection, alive)
        connection.close()
        running += 1
        while running and os.waitpid(-1, os.WNOHANG)[0]:
            running -= 1
    for _ in range(running):  # so that all that was run counts as this process's time
        os.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def supervise(connection: socket.socket, alive: int) -> list[str]:
    """Fork the command, in which this returns; pass on the client's signals, and tell it the command's status."""
    import select

    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    words, folder, environment = marshal.loads(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    process = os.fork()
    os.setpgid(process, process)
    if process == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 1000)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the import of sacrebleu's program undoes it
        return words
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(process)
    while ended not in (ready := select.select([connection, alive, ended], [], [])[0]):
        number = connection.recv(1) if connection in ready else b""
        if number:
            os.kill(process, number[0])
        else:
            os.killpg(process, signal.SIGKILL)
            connection.close()
            os.waitpid(process, 0)
            os._exit(0)
    connection.sendall(marshal.dumps(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))
    os._exit(0)


def run(program: str, *words: str) -> None:
    """Run a command in this process as Python would, and end without freeing what was imported, which takes long."""
    import atexit
    import runpy
    import threading
    from pathlib import Path

    name, real = Path(program).name, Path(sys.executable)
    sys.argv = [*words] if name.startswith("python") else [str(real.with_name(name)), *words]
    sys.executable = str(Path(program).with_name("python"))
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    status: object = None
    try:
        if sys.argv[0] == "-m":
            if "PYTHONSAFEPATH" not in os.environ:
                sys.path.insert(0, os.getcwd())
            del sys.argv[0]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code
        if status is not None and not isinstance(status, int):
            print(status, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    end_with(status if isinstance(status, int) else int(status is not None))


def end_with(status: int) -> None:
    """End this process with a status, or by a signal, whose number is then negative."""
    if status < 0:
        if -status in FORWARDED:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call(*sys.argv[2:])
    run(*serve(*sys.argv[2:]))
