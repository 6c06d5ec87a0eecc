//! The streams: one for programs, and one each way for copies to and from the device, so that a batch comes and a loss goes
//! while a program runs. Events order them:
//!
//! * a program, and work that others put on its stream, waits for all previous copies to the device;
//! * a copy waits for previous work that others put on the programs' stream, and one from the device for those to it. It does not
//!   wait for programs: none has written or will read the copied memory before the copy is done;
//! * each lane has a stream, too, or all have one: what is on it waits for its program's previous work, and the program for it where
//!   it needs its result.
//!
//! **Invariant:** memory that one of these used and freed can be used by any other at once.

use super::api::Handle;
use super::context::{Context, NO_TIMING, StreamLock};
use super::staging::{Order, Staging};
use crate::buffer::Location;
use crate::error::Result;
use crate::op::collective;
use crate::plan::LaneId;
use parking_lot::Mutex;
use std::collections::HashMap;

pub struct Streams {
    staging: Staging,
    /// Streams of copies to the device and from it: that of programs where there is only one stream.
    up: Handle,
    down: Handle,
    /// Streams of lanes, and of those that share one; `None` where there is only one stream.
    sides: Option<Mutex<HashMap<Option<LaneId<u64>>, Handle>>>,
    /// Event: the last copy to the device is done.
    uploaded: Handle,
    /// Event: the work that others put on the programs' stream is done.
    others: Handle,
}

impl Streams {
    /// `several`: whether there is more than one stream.
    pub fn new(context: &Context, several: bool) -> Result<Streams> {
        let stream = || if several { context.new_stream() } else { Ok(context.stream) };
        Ok(Streams {
            staging: Staging::default(),
            up: stream()?,
            down: stream()?,
            sides: several.then(Mutex::default),
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

    /// Copies to the device, in the order of programs.
    pub fn write(&self, context: &Context, from: &[u8], address: usize) -> Result<()> {
        let order = Order { stream: context.stream, after: &[], done: None };
        self.staging.write(context, &order, from, address)
    }

    /// Copies from the device, in the order of programs.
    pub fn read(&self, context: &Context, address: usize, to: &mut [u8]) -> Result<()> {
        let order = Order { stream: context.stream, after: &[], done: None };
        self.staging.read(context, &order, address, to)
    }

    /// Makes later work on the programs' stream wait for all copies to the device so far.
    pub fn follow_uploads(&self, context: &Context, stream_lock: &StreamLock) -> Result<()> {
        context.follow(context.stream, self.uploaded, stream_lock)
    }

    /// Calls `work` of others, which puts work on the programs' stream.
    pub fn queue(&self, context: &Context, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let stream_lock = context.lock_stream()?;
        stream_lock.must_not_capture("call the program")?;
        self.follow_uploads(context, &stream_lock)?;
        let worked = work();
        // Failed work may have begun.
        worked.and(context.record(self.others, context.stream, &stream_lock))
    }

    /// The stream of a lane, or that of all.
    fn side(&self, context: &Context, lane: Option<LaneId<u64>>) -> Result<Handle> {
        let Some(sides) = &self.sides else { return Ok(context.stream) };
        let mut sides = sides.lock();
        if let Some(&stream) = sides.get(&lane) {
            return Ok(stream);
        }
        let stream = context.new_stream()?;
        let is_gone = |lane: &Option<LaneId<u64>>| match lane {
            Some(LaneId::Communicator(number)) => collective::name(*number).is_none(),
            _ => false,
        };
        let gone = sides.extract_if(|lane, _| is_gone(lane));
        gone.for_each(|(_, stream)| context.drop_stream(stream));
        sides.insert(lane, stream);
        Ok(stream)
    }

    /// See [`super::super::device::Device::on_side_stream`]. Returns the event that this work is done. `location` is that of
    /// programs.
    pub fn on_side_stream(
        &self,
        context: &Context,
        (lane, location): (Option<LaneId<u64>>, Location),
        work: &mut dyn FnMut(Location) -> Result<()>,
    ) -> Result<Handle> {
        let side = self.side(context, lane)?;
        let stream_lock = context.lock_stream()?;
        stream_lock.must_not_capture("call the program")?;
        let event = context.event()?;
        let worked = (context.record(event, context.stream, &stream_lock))
            .and_then(|()| context.follow(side, event, &stream_lock))
            .and_then(|()| work(Location { stream: side, ..location }));
        let ended = worked.and(context.record(event, side, &stream_lock));
        if let Err(error) = ended {
            self.join(context, event).ok();
            return Err(error);
        }
        Ok(event)
    }

    pub fn join(&self, context: &Context, event: Handle) -> Result<()> {
        let joined = context.follow(context.stream, event, &context.lock_stream()?);
        context.give_event(event);
        joined
    }

    pub fn wait_for(&self, context: &Context, event: Handle) -> Result<()> {
        let waited = context.wait(event, "waiting for a collective or a copy");
        context.give_event(event);
        waited
    }

    /// Releases everything. The context's work must be done.
    pub fn close(&self, context: &Context) {
        self.staging.close(context);
        [self.uploaded, self.others].iter().for_each(|event| context.drop_event(*event));
        if self.up != context.stream {
            [self.up, self.down].iter().for_each(|stream| context.drop_stream(*stream));
        }
        let sides = self.sides.iter().flat_map(|sides| std::mem::take(&mut *sides.lock()));
        sides.for_each(|(_, stream)| context.drop_stream(stream));
    }
}
