"""Several worker processes on this machine, each answering one shard of a run.

Workers share nothing but the run folder: each appends to a file of its own. One that dies is named;
what it answered stays.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

from harness.errors import DeadShard, HarnessError
from harness.plan import Plan, RunSpec
from harness.progress import Progress
from harness.runner import ask
from harness.store import RunStore, Shard


def ask_in_processes(spec: RunSpec, root: Path, count: int, progress: Progress) -> None:
    """Answers a run with ``count`` worker processes; the caller holds the run folder.

    Raises DeadShard that names the shards that died, or a plain HarnessError if all of those met
    an error that the user can mend.
    """
    context = multiprocessing.get_context("spawn")
    workers = {}
    problems: dict[int, str] = {}
    try:
        for index in range(count):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(spec, root, Shard(index, count), theirs))
            with _interrupts_held():
                process.start()
            theirs.close()
            workers[ours] = process
        _watch(list(workers), progress, problems)
        for process in workers.values():
            process.join()
    except BaseException:
        for process in workers.values():
            process.terminate()
        for process in workers.values():
            process.join()
        raise
    died = []
    for index, process in enumerate(workers.values()):
        if process.exitcode != 0:
            died.append(f"shard {index}/{count} {problems.get(index) or _how(process.exitcode)}")
    if died:
        kind = HarnessError if len(problems) == len(died) else DeadShard
        raise kind(
            f"{'; '.join(died)}. All answers so far are saved in {root}: run the same command "
            f"again, or one shard alone with --run {root} --shard I/{count}"
        )


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keeps Ctrl-C from processes that are started meanwhile: only this one answers it, later."""
    resource_tracker.ensure_running()  # started with a process, it would let the signal through
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _watch(pipes: list[Connection], progress: Progress, problems: dict[int, str]) -> None:
    """Shows what the workers report until all of them have closed their pipe."""
    numbers = {pipe: index for index, pipe in enumerate(pipes)}
    while pipes:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, OSError):  # ended, or was killed in the middle of a message
                pipes.remove(pipe)
                continue
            if isinstance(message, str):
                problems[numbers[pipe]] = message
            else:
                progress.add(*message)


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"was killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    return f"ended with exit code {exitcode} (its error stands above)"


class _Reporter(Progress):
    """Progress that goes to the parent process instead of the terminal."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__("", 0)
        self.pipe = pipe

    def add(self, items: int = 1, failed: int = 0) -> None:
        self.pipe.send((items, failed))


def _work(spec: RunSpec, root: Path, shard: Shard, pipe: Connection) -> None:
    """A worker process: answers one shard and reports each answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers itself
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    store = RunStore(root)
    try:
        with store.locked(shard, worker=True):
            # From here on the lock keeps the next run off. A parent that is gone no longer does.
            if _parent_is_gone():
                return
            plan = Plan.build(spec)
            ask(plan, store, shard, _Reporter(pipe))
    except HarnessError as error:
        pipe.send(f"stopped: {error}")
        raise SystemExit(2) from None


def _parent_is_gone() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, so that nobody works on behind a killed run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
