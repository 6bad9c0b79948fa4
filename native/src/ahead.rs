//! Work that a few threads do ahead of a reader, who takes the answers in the order in which it asked.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use crate::error::{panicked, Result};

type Job<T> = Box<dyn FnOnce() -> Result<T> + Send>;

/// Jobs in flight: asked for, and not taken yet. Dropping it stops the work and joins the threads.
pub struct Ahead<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    asked: Condvar,
    answered: Condvar,
}

struct State<T> {
    jobs: VecDeque<(usize, Job<T>)>,
    /// One place for each job in flight, the oldest first.
    answers: VecDeque<Option<Result<T>>>,
    /// The number of jobs whose answers were taken, so that of the oldest in flight.
    taken: usize,
    stopped: bool,
}

impl<T: Send + 'static> Ahead<T> {
    /// Start as many threads, or fewer if the system has none left: the reader does what they do not.
    pub fn start(threads: usize) -> Ahead<T> {
        let state = State { jobs: VecDeque::new(), answers: VecDeque::new(), taken: 0, stopped: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), asked: Condvar::new(), answered: Condvar::new() });
        let started = without_signals(|| {
            let start = |_| {
                let shared = shared.clone();
                Builder::new().name("delta-sidecar".into()).spawn(move || shared.work()).ok()
            };
            (0..threads).map_while(start).collect()
        });
        Ahead { shared, threads: started }
    }

    pub fn ask(&self, job: impl FnOnce() -> Result<T> + Send + 'static) {
        let mut state = self.shared.lock();
        let number = state.taken + state.answers.len();
        state.jobs.push_back((number, Box::new(job)));
        state.answers.push_back(None);
        self.shared.asked.notify_one();
    }

    /// The answer of the oldest job in flight; None if there is none. Jobs that no thread has begun are done here
    /// while it is not there.
    pub fn take(&self) -> Option<Result<T>> {
        let mut state = self.shared.lock();
        loop {
            if state.answers.front()?.is_some() {
                state.taken += 1;
                return state.answers.pop_front().flatten();
            }
            state = match state.jobs.pop_front() {
                Some(job) => self.shared.done(state, job),
                None => self.shared.answered.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.stopped {
            state = match state.jobs.pop_front() {
                Some(job) => self.done(state, job),
                None => self.asked.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }

    /// Do a job while others go on.
    fn done<'a>(&'a self, state: MutexGuard<'a, State<T>>, (number, job): (usize, Job<T>)) -> MutexGuard<'a, State<T>> {
        drop(state);
        let answer = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(panicked(panic)));
        let mut state = self.lock();
        let place = number - state.taken;
        state.answers[place] = Some(answer);
        self.answered.notify_one();
        state
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        drop(left);
        self.shared.asked.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Threads that are started in here get no signals but those of their own faults: the handlers of the host run on the
/// host's threads, as if these were not there. A thread inherits what is blocked.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    let mut blocked = SigSet::all();
    for fault in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGABRT, Signal::SIGSYS] {
        blocked.remove(fault);
    }
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let started = start();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    started
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::error::{corrupt, Code};

    fn answers(ahead: &Ahead<usize>) -> Vec<std::result::Result<usize, Code>> {
        std::iter::from_fn(|| ahead.take()).map(|answer| answer.map_err(|error| error.code)).collect()
    }

    #[test]
    fn answers_come_in_the_order_of_the_jobs() {
        for threads in 0..4 {
            let ahead = Ahead::start(threads);
            assert!(ahead.take().is_none());
            for number in 0..50 {
                ahead.ask(move || {
                    std::thread::sleep(Duration::from_micros(number as u64 * 37 % 200));
                    Ok(number)
                });
            }
            assert_eq!(answers(&ahead), (0..50).map(Ok).collect::<Vec<_>>());
            assert!(ahead.take().is_none());
        }
    }

    #[test]
    fn errors_and_panics_are_answers() {
        for threads in 0..3 {
            let ahead = Ahead::start(threads);
            ahead.ask(|| Ok(1));
            ahead.ask(|| corrupt("broken"));
            ahead.ask(|| panic!("a mistake"));
            ahead.ask(|| Ok(4));
            assert_eq!(answers(&ahead), [Ok(1), Err(Code::Corrupt), Err(Code::Internal), Ok(4)]);
        }
    }

    #[test]
    fn dropping_it_leaves_out_what_was_not_begun() {
        let done = Arc::new(AtomicUsize::new(0));
        let ahead = Ahead::start(2);
        for _ in 0..100 {
            let done = done.clone();
            ahead.ask(move || {
                std::thread::sleep(Duration::from_millis(5));
                done.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
        }
        drop(ahead);
        assert!(done.load(Ordering::SeqCst) <= 2);
        assert_eq!(Arc::strong_count(&done), 1, "the threads have ended");
    }

    #[test]
    fn threads_get_no_signals_and_the_caller_keeps_its_own() {
        let mask = || SigSet::thread_get_mask().map_err(|_| crate::error::Error::new(Code::Internal, "no mask"));
        let ahead = Ahead::start(1);
        ahead.ask(move || Ok((std::thread::current().id(), mask()?)));
        while ahead.shared.lock().answers[0].is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let Some(Ok((thread, theirs))) = ahead.take() else { panic!("there is no answer") };
        assert_ne!(thread, std::thread::current().id());
        assert!(theirs.contains(Signal::SIGINT) && theirs.contains(Signal::SIGTERM) && !theirs.contains(Signal::SIGSEGV));
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGINT));
    }
}
