//! Runs an actor inside `catch_unwind`, and starts it again when it breaks.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{self, Poll},
    thread,
    time::Duration,
};

use actix::{
    Actor, Addr, Context,
    dev::{ContextFut, channel},
};
use actix_rt::ArbiterHandle;
use tokio::time::Instant;

use super::{
    Kit,
    cell::{Cell, Life},
    panics::{Cause, caught},
    policy::Failures,
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

/// Starts an actor on an arbiter, and restarts it by the policy of the kit whenever it breaks: on a panic
/// anywhere in it, or when its context stops though nobody called [`Cell::stop`].
///
/// `make` runs on the arbiter, once, so what it builds need not be `Send`. A panic in it fails the actor. An
/// actor that takes the kind and id of an older one takes its place in the registry.
///
/// Returns at once. On an arbiter that has ended the actor is `Stopped` from the beginning.
pub fn supervise<A, F>(
    kit: &Kit,
    arbiter: &ArbiterHandle,
    kind: &'static str,
    id: impl Into<String>,
    make: F,
) -> Supervised<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
    F: FnOnce(Cell) -> A + Send + 'static,
{
    let cell = Cell::new(kind, id);
    let (sender, receiver) = channel::channel(UNBOUNDED);
    kit.registry().insert(cell.clone());

    let kit = kit.clone();
    let mut fate = Fate { cell: cell.clone(), end: Life::Stopped };
    // An arbiter that has ended drops the closure, and with it the receiver and the fate.
    arbiter.spawn_fn(move || match caught(|| make(fate.cell.clone())) {
        Ok(actor) => {
            let context = Some(Context::with_receiver(receiver).into_future(actor));
            let supervisor = Supervisor { context, sound: false, failures: Failures::default(), kit, fate };
            actix_rt::spawn(supervisor.run());
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
    end: Life,
}

impl Fate {
    fn fail(&mut self, cause: Cause) {
        let (kind, id) = (self.cell.kind(), self.cell.id());
        log::error!("actor failed for good actor={kind} id={id} err={} place={}", cause.message, cause.place);
        self.cell.note(cause);
        self.end = Life::Failed;
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
    failures: Failures,
    kit: Kit,
    fate: Fate,
}

/// Why a life came to its end.
enum Turn {
    StopAsked,
    RestartAsked,
    Broke(Cause),
}

impl<A> Supervisor<A>
where
    A: Actor<Context = Context<A>> + actix::Supervised,
{
    async fn run(mut self) {
        let cell = self.fate.cell.clone();
        let mut turn = self.live(&cell).await;
        loop {
            self.sound = false;
            let wait = match turn {
                Turn::StopAsked => return,
                Turn::RestartAsked => Duration::ZERO,
                Turn::Broke(cause) => match self.failures.add(self.kit.policy(), Instant::now()) {
                    None => return self.fate.fail(cause),
                    Some(wait) => {
                        let (kind, id) = (cell.kind(), cell.id());
                        let message = cell.status().last_message.unwrap_or("-");
                        log::error!(
                            "actor broke, restarting actor={kind} id={id} err={} place={} last_message={message} wait={wait:?}",
                            cause.message,
                            cause.place
                        );
                        cell.note(cause);
                        wait
                    }
                },
            };
            cell.set_life(Life::Restarting);
            tokio::select! {
                biased;
                () = cell.stop_asked() => return,
                () = cell.restart_asked() => {}
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
        tokio::select! {
            biased;
            () = cell.stop_asked() => Turn::StopAsked,
            () = cell.restart_asked() => Turn::RestartAsked,
            cause = poll_fn(|task| self.poll_actor(task)) => Turn::Broke(cause),
        }
    }

    fn poll_actor(&mut self, task: &mut task::Context<'_>) -> Poll<Cause> {
        let Some(context) = &mut self.context else { return Poll::Pending };
        self.sound = true;
        match caught(|| Pin::new(context).poll(task)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(Cause::new("its context stopped", String::new())),
            Err(cause) => Poll::Ready(cause),
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
    /// Also the way out when the arbiter ends. A context that is dropped alive runs its hooks, and a panic in
    /// them that nobody catches would abort the process if it came while another one unwinds.
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else { return };
        if !self.sound || thread::panicking() {
            actix::ActorContext::terminate(context.ctx());
        }
        if let Err(cause) = caught(|| drop(context)) {
            let (kind, id) = (self.fate.cell.kind(), self.fate.cell.id());
            log::error!(
                "actor broke while it ended actor={kind} id={id} err={} place={}",
                cause.message,
                cause.place
            );
            self.fate.cell.note(cause);
        }
    }
}

#[cfg(test)]
mod tests;
