//! What a task starts on the host belongs together, and ends together: with the task, with its deadline, or, when nobody
//! was left to end it, before the task goes on. A converter that outlived its executor would go on writing to a disk.

use std::any::Any;

use model::id::OpId;

use crate::Result;

/// Lasts as long as the operation has this thread; then nothing that was started there is left.
pub struct Entered {
    _guard: Option<Box<dyn Any>>,
}

impl Entered {
    pub(crate) fn keeping(guard: impl Any) -> Self {
        let _guard = Some(Box::new(guard) as Box<dyn Any>);
        Self { _guard }
    }

    /// Where nothing is kept together.
    pub(crate) fn nowhere() -> Self {
        Self { _guard: None }
    }
}

/// For one more thread of an operation, which takes it there itself.
pub struct Place(Box<dyn FnOnce() -> Entered + Send>);

impl Place {
    pub(crate) fn entered_by(enter: impl FnOnce() -> Entered + Send + 'static) -> Self {
        Self(Box::new(enter))
    }

    /// Where nothing is kept together.
    pub(crate) fn nowhere() -> Self {
        Self::entered_by(Entered::nowhere)
    }

    /// From here on, whatever this thread starts is the place's.
    pub fn enter(self) -> Entered {
        (self.0)()
    }
}

pub trait Operations: Send + Sync {
    /// Why what an operation starts cannot be kept together here, if so. Then it is only its process group that ends.
    fn hindrance(&self) -> Option<String>;

    /// From here on, whatever this thread starts is the operation's. What an earlier life left of it is dead first;
    /// fails if that does not die.
    fn enter(&self, op: OpId) -> Result<Entered>;

    /// A place of its own in the operation that has this thread, for another thread that works for it: where several
    /// work at once, what ends with a program of one is nothing that another has started.
    fn place(&self, number: usize) -> Result<Place>;
}
