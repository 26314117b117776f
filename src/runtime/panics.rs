//! Catches panics, and knows where they happened.

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use super::exit::ExitReason;

/// Longest text of a panic that is kept, in characters: it goes into the log.
const MAX_TEXT: usize = 300;

/// Why a life of an actor ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) reason: ExitReason,
    /// One line, bounded.
    pub(super) message: String,
    /// `file:line`; empty when there is none.
    pub(super) place: String,
    /// The message stands in the code as it is: there is nothing of anybody's data in it.
    pub(super) is_fixed: bool,
}

impl Cause {
    /// For any reason but a panic.
    pub(super) fn new(reason: ExitReason, message: &str, place: String) -> Self {
        Self { reason, message: one_line(message), place, is_fixed: true }
    }
}

/// Control characters become spaces, so that the text stays one line of a log.
fn one_line(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_TEXT).map(clean).collect()
}

/// The text of a panic: one line, bounded.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    text_of(payload).0
}

/// The same, and whether it is a literal. A text that was put together may hold anything.
fn text_of(payload: &(dyn Any + Send)) -> (String, bool) {
    match (payload.downcast_ref::<&'static str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (one_line(text), true),
        (_, Some(text)) => (one_line(text), false),
        _ => ("a panic without text".to_owned(), true),
    }
}

thread_local! {
    /// Whether a panic on this thread will be caught, and logged, by [`caught`].
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<(String, Backtrace)>> = const { RefCell::new(None) };
}

/// Installs the hook that notes places, once in a process.
pub(super) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Nothing in here may panic: that would abort the process.
            if !WATCHED.try_with(Cell::get).unwrap_or(false) {
                return previous(info);
            }
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
            let last = (place, Backtrace::capture());
            let _ = LAST.try_with(|slot| slot.try_borrow_mut().map(|mut slot| *slot = Some(last)));
        }));
    });
}

/// Does the work; a panic in it becomes an error.
///
/// The caller sees to it that what the work may have left half done is not used before it is set right.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Cause> {
    LAST.set(None); // what a panic that somebody else caught has left
    let outer = WATCHED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    WATCHED.set(outer);
    result.map_err(|payload| {
        let (message, is_fixed) = text_of(payload.as_ref());
        let (place, backtrace) = LAST.take().unwrap_or((String::new(), Backtrace::disabled()));
        if backtrace.status() == BacktraceStatus::Captured {
            log::error!("backtrace of the panic at {place}:\n{backtrace}");
        }
        Cause { reason: ExitReason::Panicked, message, place, is_fixed }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_text_and_place() {
        install_hook();
        let number = std::hint::black_box(7);
        let cause = caught(|| panic!("number {number}")).unwrap_err();
        assert_eq!((&*cause.message, cause.is_fixed), ("number 7", false));
        assert_eq!(cause.place, format!("{}:{}", file!(), line!() - 2));
        let cause = caught(|| panic!("as it stands here")).unwrap_err();
        assert_eq!((&*cause.message, cause.is_fixed), ("as it stands here", true));
    }

    #[test]
    fn a_text_is_one_bounded_line() {
        let cause = caught(|| panic!("a\nb\u{1b}[31m{}", "x".repeat(10_000))).unwrap_err();
        assert!(cause.message.starts_with("a b [31mxx"));
        assert_eq!(cause.message.chars().count(), MAX_TEXT);
    }

    #[test]
    fn a_payload_that_is_no_text_is_said_to_be_none() {
        assert_eq!(caught(|| panic::panic_any(7_u8)).unwrap_err().message, "a panic without text");
    }

    #[test]
    fn an_older_place_is_not_taken_for_a_new_one() {
        install_hook();
        caught(|| {
            // Caught inside: its place must not stick to the next one, which has none.
            let _ = panic::catch_unwind(|| panic!("inner"));
        })
        .unwrap();
        let cause = caught(|| panic::resume_unwind(Box::new("outer"))).unwrap_err();
        assert_eq!((cause.message.as_str(), cause.place.as_str()), ("outer", ""));
    }
}
