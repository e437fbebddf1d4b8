"""A further process for one of several devices: `python -m ... FD`, started by parallel.py.

It reads from the pipe FD what its part is, then what to do of it, until the pipe is closed.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import torch

from synthbench.backends.kernel_choice import using_kernel
from synthbench.backends.torch.backend import load_model
from synthbench.backends.torch.parallel import Work, meeting_point
from synthbench.backends.torch.replica_process import READY, TO_END, Failure

CLOSED = None  # in the queue: the first process wants nothing more, or is gone


def main(pipe: Connection) -> None:
    """Do its part until the pipe is closed; what is raised is sent back."""
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=read, args=(pipe, messages), daemon=True).start()
    try:
        work = messages.get()
        if work is not CLOSED:
            do(work, pipe, messages)
    except Exception as error:
        pipe.send(Failure(sendable(error), time.monotonic()))
        raise SystemExit(1) from error


def read(pipe: Connection, messages: queue.SimpleQueue[Any]) -> None:
    """Pass on what arrives, and end this process if it waits for others when nothing can arrive."""
    try:
        while True:
            messages.put(pipe.recv())
    except (EOFError, ConnectionResetError):
        messages.put(CLOSED)
        time.sleep(TO_END)
        os._exit(1)


def do(work: Work, pipe: Connection, messages: queue.SimpleQueue[Any]) -> None:
    """Do what the first process says."""
    torch.set_num_threads(work.place.threads)
    with using_kernel(work.kernel):
        module = load_model(work.model, work.start, work.setting)
        pipe.send(READY)
        part = work.join(module, work.setting, work.place, meeting_point(work.place.port))
        while (message := messages.get()) is not CLOSED:
            action, *given = message
            getattr(part, action)(*given)
        part.close()


def sendable(error: Exception) -> Exception:
    """The error itself, or its text where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a mixer raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
    os._exit(0)  # PyTorch takes seconds to end in order
