"""What our functions do to the worker that they run in."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from watersmeet.spark.session import worker
from watersmeet.spark.session.worker_object import WorkerObject


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """No connection has been found yet; and this process is no worker."""
    worker._found.clear()
    yield
    worker._found.clear()


def in_a_worker(sock: socket.socket, task: Callable[[], None]) -> None:
    """Run a task as PySpark's daemon does: below a function that has the socket."""
    scope = {"__name__": "pyspark.daemon", "task": task}
    exec("def worker(sock):\n    task()", scope)
    scope["worker"](sock)  # type: ignore[operator]


def waits(sock: socket.socket) -> bool:
    return not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_worker_sends_over_tcp_without_waiting() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as jvm,
        server.accept()[0] as sock,
        socket.socket() as other,
    ):
        assert waits(sock)
        in_a_worker(sock, worker.acknowledge)
        assert not waits(sock)
        assert waits(other)
        assert waits(jvm)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="needs Linux")
def test_rows_are_acknowledged_as_they_come() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as sock,
    ):
        quick = []

        def task() -> None:
            for _ in worker.promptly(iter([1, 2])):
                quick.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)  # as Linux does

        in_a_worker(sock, task)
        assert quick == [1, 1]


def test_a_unix_socket_has_nothing_to_set() -> None:
    one, other = socket.socketpair()
    with one, other:
        in_a_worker(one, worker.acknowledge)
        assert worker._found == [one]


def test_other_processes_have_no_such_connection() -> None:
    worker.acknowledge()
    assert not worker._found


class Finds(WorkerObject):
    """Has the worker found its connection, before any rows came?"""

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [bool(worker._found)]
        for _ in rows:
            pass
        yield pa.RecordBatch.from_pydict({"found": found})


@pytest.mark.spark
def test_in_a_worker_of_sparks_the_connection_is_found(spark: SparkSession) -> None:
    [row] = spark.range(0, 1, 1, 1).mapInArrow(Finds(), "found boolean").collect()
    assert row.found
