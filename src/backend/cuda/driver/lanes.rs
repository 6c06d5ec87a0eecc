//! Which stream does what: programs have one; what is copied to the device or from it has one each way, so that a batch comes
//! and a loss goes while a program runs. Events say who waits for whom:
//!
//! * a program, and what others put on its stream, waits for every copy to the device that was asked for before;
//! * a copy waits for what others put on the programs' stream before, and one from the device for those to it. It does not wait for
//!   programs: who copies has memory that none has written or will read before the copy is done;
//! * collectives have a stream, too: one waits for what its program did before, and the program for it where it needs its result.
//!
//! **Invariant:** memory that was used by one of these and given back is good for any other at once.

use super::api::Handle;
use super::context::{Context, NO_TIMING, Turn};
use super::staging::{Order, Staging};
use crate::buffer::Location;
use crate::error::Result;

pub struct Lanes {
    staging: Staging,
    /// To the device, from it: the programs' own where everything is on one stream.
    up: Handle,
    down: Handle,
    /// Of collectives.
    beside: Handle,
    /// The last copy to the device is done.
    uploaded: Handle,
    /// What others put on the programs' stream is done.
    others: Handle,
}

impl Lanes {
    /// `several`: whether there is more than one stream.
    pub fn new(context: &Context, several: bool) -> Result<Lanes> {
        let stream = || if several { context.new_stream() } else { Ok(context.stream) };
        Ok(Lanes {
            staging: Staging::default(),
            up: stream()?,
            down: stream()?,
            beside: stream()?,
            uploaded: context.new_event(NO_TIMING)?,
            others: context.new_event(NO_TIMING)?,
        })
    }

    /// See [`super::super::device::Device::upload`].
    pub fn upload(&self, context: &Context, from: &[u8], address: usize) -> Result<()> {
        let (after, done) = (&[self.others][..], Some(self.uploaded));
        self.staging.write(context, &Order { stream: self.up, after, done }, from, address)
    }

    /// See [`super::super::device::Device::download`].
    pub fn download(&self, context: &Context, address: usize, to: &mut [u8]) -> Result<()> {
        let after = &[self.others, self.uploaded][..];
        self.staging.read(context, &Order { stream: self.down, after, done: None }, address, to)
    }

    /// In the order of programs.
    pub fn write(&self, context: &Context, from: &[u8], address: usize) -> Result<()> {
        let order = Order { stream: context.stream, after: &[], done: None };
        self.staging.write(context, &order, from, address)
    }

    /// Likewise.
    pub fn read(&self, context: &Context, address: usize, to: &mut [u8]) -> Result<()> {
        let order = Order { stream: context.stream, after: &[], done: None };
        self.staging.read(context, &order, address, to)
    }

    /// Lets what is put on the programs' stream come after all copies to the device so far.
    pub fn follow_uploads(&self, context: &Context, turn: &Turn) -> Result<()> {
        context.follow(context.stream, self.uploaded, turn)
    }

    /// Does `work` of others, which puts something on the programs' stream.
    pub fn queue(&self, context: &Context, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let turn = context.turn()?;
        turn.must_not_capture("call the program")?;
        self.follow_uploads(context, &turn)?;
        let worked = work();
        // What failed may have begun.
        worked.and(context.record(self.others, context.stream, &turn))
    }

    /// See [`super::super::device::Device::beside`]: the event that what `work` put there is done. `location` is that of programs.
    pub fn beside(
        &self,
        context: &Context,
        location: Location,
        work: &mut dyn FnMut(Location) -> Result<()>,
    ) -> Result<Handle> {
        let turn = context.turn()?;
        turn.must_not_capture("call the program")?;
        let event = context.event()?;
        let worked = (context.record(event, context.stream, &turn))
            .and_then(|()| context.follow(self.beside, event, &turn))
            .and_then(|()| work(Location { stream: self.beside, ..location }));
        let ended = worked.and(context.record(event, self.beside, &turn));
        if let Err(error) = ended {
            self.join(context, event).ok();
            return Err(error);
        }
        Ok(event)
    }

    pub fn join(&self, context: &Context, event: Handle) -> Result<()> {
        let joined = context.follow(context.stream, event, &context.turn()?);
        context.give_event(event);
        joined
    }

    /// Gives everything back. The context's work is done.
    pub fn close(&self, context: &Context) {
        self.staging.close(context);
        [self.uploaded, self.others].iter().for_each(|event| context.drop_event(*event));
        if self.up != context.stream {
            [self.up, self.down, self.beside]
                .iter()
                .for_each(|stream| context.drop_stream(*stream));
        }
    }
}
