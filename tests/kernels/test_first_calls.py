"""First calls of kernels: interrupts are raised afterwards, and nothing is called twice."""

from __future__ import annotations

import _thread
import signal
import threading
import time

import pytest

from cpu_fallback import runtime
from cpu_fallback.runtime import call_uninterrupted, pending_interrupt

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals of Unix")


class Alarm(Exception):
    pass


@pytest.fixture
def alarm():
    """A function that lets an exception be raised after some seconds, in the module that is tested."""

    def raise_alarm(_, frame):
        if frame.f_code.co_filename == runtime.__file__:
            raise Alarm

    before = signal.signal(signal.SIGALRM, raise_alarm)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_results_and_errors_are_those_of_the_function():
    assert call_uninterrupted(divmod, 17, 5) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        call_uninterrupted(divmod, 17, 0)


def test_an_interrupt_waits_for_the_end(alarm):
    ended = []

    def work():
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            pass
        ended.append(True)

    alarm(0.05)
    with pytest.raises(Alarm):
        call_uninterrupted(work)
    assert ended


def test_a_call_may_ask_for_the_interrupt_and_end_early(alarm):
    def work():
        while (interrupt := pending_interrupt()) is None:
            time.sleep(0.001)
        raise interrupt

    alarm(0.02)
    with pytest.raises(Alarm):
        call_uninterrupted(work)
    assert pending_interrupt() is None


def test_an_interrupt_at_any_moment_leaves_no_running_call(alarm):
    """Either the function is not called, or the caller waits for its end."""
    n_interrupted = 0
    for step in range(400):
        events = []

        def work(events=events):
            events.append("begin")
            sum(range(2000))
            events.append("end")

        alarm(1e-6 + step * 5e-7)
        try:
            call_uninterrupted(work)
        except Alarm:
            n_interrupted += 1
        seen = list(events)
        assert seen in ([], ["begin", "end"])
        alarm(0)
        assert events == seen
    assert n_interrupted


def test_without_room_for_a_thread_the_main_thread_makes_the_call():
    before = threading.stack_size(1 << 46)  # more than there are addresses
    try:
        assert call_uninterrupted(threading.get_ident) == threading.get_ident()
    finally:
        threading.stack_size(before)


def test_an_error_of_a_handler_before_the_thread_starts_is_raised(monkeypatch):
    """It is not taken for the system's refusal of a thread, which has the same type."""
    called = []

    def raise_error(*_):
        raise RuntimeError("of a handler")

    monkeypatch.setattr(_thread, "start_new_thread", raise_error)
    with pytest.raises(RuntimeError, match="of a handler"):
        call_uninterrupted(called.append, 1)
    assert not called


def test_other_threads_make_the_call_themselves():
    threads = []
    thread = threading.Thread(target=lambda: threads.append(call_uninterrupted(threading.get_ident)))
    thread.start()
    thread.join()
    assert threads == [thread.ident]
