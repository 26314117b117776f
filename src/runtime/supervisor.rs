//! Runs an actor inside `catch_unwind`, and starts it again when it breaks.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{self, Poll, Waker},
    thread,
    time::Duration,
};

use actix::{
    Actor, ActorContext as _, Addr, Context,
    dev::{AsyncContextParts as _, ContextFut, channel},
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
    let mut fate = Fate { cell: cell.clone(), kit: kit.clone(), end: Life::Stopped };
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
    failures: Failures,
    kit: Kit,
    fate: Fate,
}

/// Why a life came to its end.
enum Turn {
    /// Somebody stopped it, or nobody can reach it any more.
    Over,
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
            let wait = match turn {
                Turn::Over => return,
                Turn::RestartAsked => {
                    log::warn!("actor restarts as it was asked to actor={} id={}", cell.kind(), cell.id());
                    Duration::ZERO
                }
                Turn::Broke(cause) => match self.failures.add(self.kit.policy(), Instant::now()) {
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
            () = cell.stop_asked() => Turn::Over,
            () = cell.restart_asked() => Turn::RestartAsked,
            turn = poll_fn(|task| self.poll_actor(task)) => turn,
        }
    }

    fn poll_actor(&mut self, task: &mut task::Context<'_>) -> Poll<Turn> {
        let Some(context) = &mut self.context else { return Poll::Ready(Turn::Over) };
        let polled = caught(|| Pin::new(&mut *context).poll(task));
        self.sound = matches!(polled, Ok(Poll::Pending));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Err(cause) => Poll::Ready(Turn::Broke(cause)),
            // Also what a context does when its last address is gone.
            Ok(Poll::Ready(())) if self.fate.cell.is_stop_asked() || !context.ctx().parts().connected() => {
                Poll::Ready(Turn::Over)
            }
            Ok(Poll::Ready(())) => Poll::Ready(Turn::Broke(Cause::new("its context stopped", String::new()))),
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
    let (kind, id, Cause { message, place }) = (cell.kind(), cell.id(), cause);
    let last_message = cell.status().last_message.unwrap_or("-");
    log::error!("{what} actor={kind} id={id} err={message} place={place} last_message={last_message}");
}

#[cfg(test)]
mod tests;
