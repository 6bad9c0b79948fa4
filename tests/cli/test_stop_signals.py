"""Commands that run until a signal stops them."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from delta_sidecar.cli.stop_signals import StopEvent, stopped_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [None, 30.0], ids=["for ever", "for a time"])
def test_a_signal_that_another_thread_receives_stops_a_wait(number: signal.Signals, seconds: float | None) -> None:
    """The system may hand a signal to any thread. The main one, in which handlers run, sleeps on."""
    ended = threading.Event()
    other = threading.Thread(target=ended.wait, args=(60,))
    other.start()
    assert other.ident is not None
    try:
        with stopped_by_signals() as stop:
            threading.Timer(0.1, signal.pthread_kill, (other.ident, number)).start()
            began = time.monotonic()
            assert stop.wait(seconds)
        assert time.monotonic() - began < 10
    finally:
        ended.set()
        other.join()


def test_handlers_are_as_they_were_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stopped_by_signals(again_ends=True):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01, 0.7])
def test_a_wait_ends_in_its_time(seconds: float) -> None:
    began = time.monotonic()
    assert not StopEvent().wait(seconds)
    assert seconds <= time.monotonic() - began < seconds + 5


def test_a_set_event_is_not_waited_for() -> None:
    stop = StopEvent()
    stop.set()
    assert stop.wait()
    assert stop.wait(0)
