//! Runs an actor inside `catch_unwind`, and starts it again when it breaks.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{self, Poll, Waker},
    thread,
    time::Duration,
};

use actix::{
    Actor, ActorContext as _, Addr, AsyncContext as _, Context,
    dev::{AsyncContextParts as _, ContextFut, channel},
    fut,
};
use log::Level;

use super::{
    Kit,
    arbiters::Seat,
    cell::{Cell, Life},
    exit::ExitReason,
    panics::{Cause, caught},
};

/// Mailboxes have no limit: the one that actix offers does not hold senders back anyway.
const UNBOUNDED: usize = 0;

/// A supervised actor as its parent holds it.
pub struct Supervised<A: Actor> {
    /// Stays the same through all restarts; closed when the life of the actor is over.
    pub addr: Addr<A>,
    /// State and controls.
    pub cell: Cell,
}

/// Starts an actor on a thread, and restarts it by the policy of the kit whenever it breaks: on a panic
/// anywhere in it, when its context stops though nobody called [`Cell::stop`], or when the watchdog finds it frozen.
///
/// `make` runs on the thread, once, so what it builds need not be `Send`. A panic in it fails the actor. An
/// actor that takes the kind and id of an older one takes its place in the registry, and the history of one that has retired.
///
/// Returns at once. On an arbiter that has ended the actor is `Stopped` from the beginning.
pub fn supervise<A, F>(
    kit: &Kit,
    seat: impl Into<Seat>,
    kind: &'static str,
    id: impl Into<String>,
    make: F,
) -> Supervised<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
    F: FnOnce(Cell) -> A + Send + 'static,
{
    let seat = seat.into();
    let id: Arc<str> = id.into().into();
    let cell = match kit.registry().take_retired(kind, &id) {
        Some(retired) => retired.heir(seat.clone()),
        None => Cell::seated(kind, id, Some(seat.clone())),
    };
    start(kit, &seat, cell, None, make)
}

/// Starts an actor in the place of one whose thread is lost, or that was given up: another actor with another address and an empty mailbox,
/// but the same history. One by which its thread was lost has failed, and waits for its turn as after a panic; one that was given up
/// begins to count its failures anew.
///
/// The lost one is stopped, which it hears if its thread ever goes on. The caller sees to it that what it does until then counts for
/// nothing.
pub fn supervise_again<A, F>(kit: &Kit, seat: impl Into<Seat>, old: &Cell, make: F) -> Supervised<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
    F: FnOnce(Cell) -> A + Send + 'static,
{
    let seat = seat.into();
    let broke = match (old.is_alive(), old.is_at_work()) {
        (true, true) => {
            let place = old.status().last_message.map(|message| format!("in {message}")).unwrap_or_default();
            Some(Cause::new(ExitReason::LostArbiter, "did not yield its thread", place))
        }
        (true, false) => {
            old.note(Cause::new(ExitReason::LostArbiter, "its thread was lost to another", String::new()));
            None
        }
        (false, _) => None,
    };
    old.stop();
    // One that broke is restarted like any other, after its back-off, and counted then.
    let cell = old.successor(seat.clone(), broke.is_none());
    if broke.is_none() {
        kit.count_restart(cell.kind());
    }
    start(kit, &seat, cell, broke, make)
}

fn start<A, F>(kit: &Kit, seat: &Seat, cell: Cell, broke: Option<Cause>, make: F) -> Supervised<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
    F: FnOnce(Cell) -> A + Send + 'static,
{
    let (sender, receiver) = channel::channel(UNBOUNDED);
    kit.registry().insert(cell.clone());

    let kit = kit.clone();
    let mut fate = Fate { cell: cell.clone(), kit: kit.clone(), end: Life::Stopped };
    // An arbiter that has ended drops the closure, and with it the receiver and the fate.
    seat.arbiter().spawn_fn(move || match caught(|| make(fate.cell.clone())) {
        Ok(actor) => {
            let context = Some(Context::with_receiver(receiver).into_future(actor));
            let supervisor = Supervisor { context, sound: false, begun: false, kit, fate };
            actix_rt::spawn(supervisor.run(broke));
        }
        Err(cause) => {
            drop(receiver);
            fate.fail(cause);
        }
    });
    Supervised { addr: Addr::new(sender), cell }
}

/// Makes the end visible, whichever way it comes.
struct Fate {
    cell: Cell,
    kit: Kit,
    end: Life,
}

impl Fate {
    fn fail(&mut self, cause: Cause) {
        complain("actor failed for good", &self.cell, &cause);
        self.cell.note(cause);
        self.end = Life::Failed;
        self.tell_broken(Life::Failed);
    }

    /// Whoever is told may break too: that is not this actor's end.
    fn tell_broken(&self, life: Life) {
        if let Err(cause) = caught(|| self.kit.tell_broken(&self.cell, life)) {
            complain("observer of actors broke", &self.cell, &cause);
        }
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        self.cell.set_life(self.end);
    }
}

struct Supervisor<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
{
    /// `None` only while it is dropped.
    context: Option<ContextFut<A, Context<A>>>,
    /// Whether the actor was started and did not break since: only then may its last hooks run.
    sound: bool,
    /// Whether it was started at all.
    begun: bool,
    kit: Kit,
    fate: Fate,
}

/// Why a life came to its end.
enum Turn {
    /// Somebody stopped it, or nobody can reach it any more.
    Over,
    RestartAsked(Cause),
    Broke(Cause),
}

impl<A> Supervisor<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
{
    /// `broke`: how the one broke in whose place this one starts.
    async fn run(mut self, broke: Option<Cause>) {
        let cell = self.fate.cell.clone();
        let mut turn = match broke {
            Some(cause) => Turn::Broke(cause),
            None => self.live(&cell).await,
        };
        loop {
            let wait = match turn {
                Turn::Over => return,
                Turn::RestartAsked(cause) => {
                    complain("actor restarts as it was asked to", &cell, &cause);
                    cell.note(cause);
                    Duration::ZERO
                }
                Turn::Broke(cause) => match cell.count_failure(self.kit.policy()) {
                    None => return self.fate.fail(cause),
                    Some(wait) => {
                        complain("actor broke, it will restart", &cell, &cause);
                        cell.note(cause);
                        self.fate.tell_broken(Life::Restarting);
                        wait
                    }
                },
            };
            self.sound = false;
            cell.set_life(Life::Restarting);
            tokio::select! {
                biased;
                () = cell.stop_asked() => return,
                () = cell.restart_asked() => {
                    if let Some(cause) = cell.asked() {
                        cell.note(cause);
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
            turn = match self.restart(&cell) {
                Ok(true) => self.live(&cell).await,
                Ok(false) => return, // no address is left: nobody can ever reach it
                Err(cause) => Turn::Broke(cause),
            };
        }
    }

    /// Runs the actor until something happens to it.
    async fn live(&mut self, cell: &Cell) -> Turn {
        loop {
            tokio::select! {
                biased;
                () = cell.stop_asked() => return Turn::Over,
                () = cell.restart_asked() => match cell.asked() {
                    // It begins anew by beginning. And until then nobody may have its address but itself.
                    Some(_) if !self.begun => {}
                    Some(cause) if cause.reason == ExitReason::Frozen => return Turn::Broke(cause),
                    Some(cause) => return Turn::RestartAsked(cause),
                    None => {}
                },
                () = cell.probe_asked() => self.probe(),
                turn = poll_fn(|task| self.poll_actor(task)) => return turn,
            }
        }
    }

    /// Finds out whether the actor could take a message: where a `ctx.wait` holds up its mailbox, this is held up, too.
    fn probe(&mut self) {
        if let Some(context) = &mut self.context {
            let cell = self.fate.cell.clone();
            context.ctx().spawn(fut::wrap_future(async move { cell.probe_came_through() }));
        }
    }

    fn poll_actor(&mut self, task: &mut task::Context<'_>) -> Poll<Turn> {
        let Some(context) = &mut self.context else { return Poll::Ready(Turn::Over) };
        self.begun = true;
        self.fate.cell.at_work(true);
        let polled = caught(|| Pin::new(&mut *context).poll(task));
        self.fate.cell.at_work(false);
        self.sound = matches!(polled, Ok(Poll::Pending));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Err(cause) => Poll::Ready(Turn::Broke(cause)),
            // Also what a context does when its last address is gone.
            Ok(Poll::Ready(())) if self.fate.cell.is_stop_asked() || !context.ctx().parts().connected() => {
                Poll::Ready(Turn::Over)
            }
            Ok(Poll::Ready(())) => Poll::Ready(Turn::Broke(Cause::new(
                ExitReason::StoppedItself,
                "its context stopped",
                String::new(),
            ))),
        }
    }

    fn restart(&mut self, cell: &Cell) -> Result<bool, Cause> {
        cell.next_generation();
        let (kit, context) = (&self.kit, &mut self.context);
        let restarted = caught(|| {
            kit.count_restart(cell.kind());
            context.as_mut().is_some_and(ContextFut::restart)
        });
        if let Ok(true) = restarted {
            cell.set_life(Life::Running);
        }
        restarted
    }
}

impl<A> Drop for Supervisor<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
{
    /// Also the way out when the arbiter ends. The context would run its last hooks when it is dropped; here
    /// they run before, so that a panic in one is over when the fields drop: a second one would abort the process.
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else { return };
        let mut ended = Ok(());
        if self.sound && !thread::panicking() {
            ended = caught(|| {
                context.ctx().stop();
                let _ = Pin::new(&mut context).poll(&mut task::Context::from_waker(Waker::noop()));
            });
        }
        context.ctx().terminate(); // no hook runs from here on
        if let Err(cause) = ended.and(caught(|| drop(context))) {
            complain("actor broke while it ended", &self.fate.cell, &cause);
            self.fate.cell.note(cause);
        }
    }
}

fn complain(what: &str, cell: &Cell, cause: &Cause) {
    let (kind, id, Cause { reason, message, place, .. }) = (cell.kind(), cell.id(), cause);
    let last_message = cell.status().last_message.unwrap_or("-".into());
    let (level, reason) =
        (if *reason == ExitReason::Asked { Level::Warn } else { Level::Error }, reason.as_str());
    log::log!(
        level,
        "{what} actor={kind} id={id} reason={reason} err={message} place={place} last_message={last_message}"
    );
}

#[cfg(test)]
mod tests;
